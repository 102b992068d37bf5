"""A decision service: lists in, the list to show out, rewards whenever they come, until a winner is certified.

| file | its one job |
|---|---|
| `wire.py` | what comes in and goes out: strict schemas and their limits |
| `requests.py` | the lists of one request ↔ a table of numbers |
| `database.py`, `stores.py`, `postgres.py`, `schema.py` | SQLite and PostgreSQL alike; tables, versions |
| `journal.py`, `field.py` | facts: experiments, decisions, rewards; candidates that come and go |
| `progress.py`, `leases.py`, `thinning.py` | what the learner writes, who that is, and what of it is kept |
| `tokens.py`, `access.py`, `audit.py` | who may, and from where; who changed what |
| `housekeeping.py` | what is deleted, and what goes by age |
| `writer.py`, `reading.py` | many requests, one commit; reads beside it |
| `bounds.py`, `admission.py`, `protocol.py` | what is waited for at most, and how much is taken on |
| `deciding.py` | a plan and a random stream → decisions |
| `learning.py`, `learners.py` | the journal in decision order → evidence and the next plan |
| `views.py`, `queries.py`, `exporting.py`, `metrics.py` | what people are told |
| `experiments.py`, `service.py` | all of it in one process |
| `api.py`, `openapi.py`, `problems.py`, `page/` | HTTP |
| `settings.py`, `running.py`, `demo.py` | the process |

May be imported: nothing but by the commands; clients speak HTTP (`client.py`). Nothing here is loaded by
`import comband`.
Read first: `service.py`, then `journal.py`.
"""
