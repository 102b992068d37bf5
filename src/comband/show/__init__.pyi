"""Pictures, and reports as one HTML page each, with charts to hover over and zoom into."""

from comband.show import charts as charts
from comband.show import plots as plots
from comband.show.pages import Needed as Needed
from comband.show.pages import evaluation_page as evaluation_page
from comband.show.pages import selection_page as selection_page
