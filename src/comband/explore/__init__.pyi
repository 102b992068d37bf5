"""How to explore: explorers draw an epoch's lists with exact propensities, designs say which mixture is best."""

from comband.explore import design as design
from comband.explore import explorers as explorers
from comband.explore import held_out as held_out
from comband.explore import oracles as oracles
from comband.explore import solvers as solvers
