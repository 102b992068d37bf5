"""What a round is: the setting, lists, contexts, records of decisions and rewards; and what every room needs."""

from comband.page import bits as bits
from comband.page import catalogue as catalogue
from comband.page import contexts as contexts
from comband.page import frames as frames
from comband.page import lists as lists
from comband.page import places as places
from comband.page import problem as problem
from comband.page import progress as progress
from comband.page import rounds as rounds
from comband.page import storage as storage
from comband.page import text as text
from comband.page import threads as threads
from comband.page import totals as totals
