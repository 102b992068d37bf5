"""Who learns: a lease that runs out unless it is renewed, and a number that grows with every new holder.

A process that was stopped may believe that it still holds the lease. Whatever it writes carries its number, and is
refused when the journal knows a higher one (`FencedError`): nothing is ever counted twice.
"""

from __future__ import annotations

from comband.serve.journal import Journal


def take_lease(journal: Journal, experiment: int, holder: str, milliseconds: int) -> int | None:
    """Take or renew the lease; the fencing number, or None if another process has it. Inside a transaction."""
    run = journal.database.run
    now = journal.database.now()
    rows = run(
        f"SELECT holder, fence, expires FROM leases c WHERE experiment = ?{journal.database.FOR_UPDATE}", [experiment]
    )
    if not rows:  # the experiment was deleted
        return None
    had, fence, expires = rows[0]
    # One that ends far in the future was written before the clock was set back.
    if had != holder and now < expires <= now + 10 * milliseconds:
        return None
    fence = fence if had == holder else fence + 1
    run(
        "UPDATE leases SET holder = ?, fence = ?, expires = ? WHERE experiment = ?",
        [holder, fence, now + milliseconds, experiment],
    )
    return int(fence)


def give_back(journal: Journal, experiment: int, holder: str) -> None:
    """Let others have it at once. Inside a transaction."""
    journal.database.run("UPDATE leases SET expires = 0 WHERE experiment = ? AND holder = ?", [experiment, holder])
