"""A log in a database: what evaluation needs of it is found there, by statements in SQL, and comes back as Arrow.

Almost all rounds of a log are *quiet*: without reward, without fault, not of the sample. Of these only the number and
the smallest propensity matter. All others come back and are read as if they were a file.
"""

from comband.evaluation.logs.sql.engines import Engine, open_engine
from comband.evaluation.logs.sql.statements import DIALECTS, TESTED, Statements
from comband.evaluation.logs.sql.table import SqlTable

__all__ = ["DIALECTS", "TESTED", "Engine", "SqlTable", "Statements", "open_engine"]
