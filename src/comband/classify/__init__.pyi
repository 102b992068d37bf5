"""Lists of labels: a classifier that learns from what was shown, offline as scikit-learn does it, or online."""

from comband.classify.classifier import BanditListClassifier as BanditListClassifier
from comband.classify.online_lists import OnlineListClassifier as OnlineListClassifier
from comband.classify.persistence import load_model as load_model
from comband.classify.persistence import save_model as save_model
