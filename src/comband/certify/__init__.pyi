"""Ask and tell until a winner is certified: one learner made of parts, told apart by how an epoch explores."""

from comband.certify import fixed_time as fixed_time
from comband.certify import forecasts as forecasts
from comband.certify.ab_test import ABTest as ABTest
from comband.certify.adaptive import AdaptiveComband as AdaptiveComband
from comband.certify.confirming import Confirmation as Confirmation
from comband.certify.confirming import Lift as Lift
from comband.certify.doubling import TwoPhaseComband as TwoPhaseComband
from comband.certify.fixed_time.online_comband import OnlineComband as OnlineComband
from comband.certify.fixed_time.pac_comband import PacComband as PacComband
from comband.certify.fixed_time.selection import PacSelection as PacSelection
from comband.certify.fixed_time.single_label import SingleLabelComband as SingleLabelComband
from comband.certify.fixed_time.uniform import UniformExploration as UniformExploration
from comband.certify.learner import CertifyingLearner as CertifyingLearner
from comband.certify.uniform_lists import UniformLists as UniformLists
from comband.certify.uniform_mixture import UniformMixture as UniformMixture
