"""The refusal of a log that does not say with which probability items were shown."""

from __future__ import annotations

from comband.evaluation.logs.faults import LogError

PAGE = "docs/howto_no_propensities.md"


def no_propensities(source: str, item: str, reward: str, missing: str, *, renamed: bool = True) -> LogError:
    """`item` and `reward` as the source calls them, and what is missing in a clause; `renamed` if it may be there under
    another name.
    """
    named = (
        "If it is there by another name, say so (--column propensity=NAME, columns={'propensity': NAME}). If not, n"
        if renamed
        else "N"
    )
    return LogError(
        f"{source} tells what was shown ({item}) and what it brought ({reward}), but not with which probability it was "
        f"shown: {missing}. {named}othing can be promised from this log: {PAGE} says what can still be had."
    )
