"""ville: an A/B/n test with a confidence sequence per candidate."""

import ville

from benchmarks.peers.smallest.visitors import LISTS, MOST, Clock, clicks

sequences, clock = [ville.BernoulliCS(alpha=0.05 / 3) for _ in range(3)], Clock()
for t in range(MOST):
    arm = t % 3
    reward = clicks(t, LISTS[t, arm]).sum()
    with clock:
        sequences[arm].update(reward)
        bounds = [one.interval() if one.n_ else (0.0, 1.0) for one in sequences]
    lows, highs = [low for low, _ in bounds], [high for _, high in bounds]
    best = lows.index(max(lows))
    if max(high for i, high in enumerate(highs) if i != best) <= lows[best] + 0.1:
        break
gap = max(high for i, high in enumerate(highs) if i != best) - lows[best]
clock.say(f"candidate {best}, within {max(gap, 0):.2f} of the best after {t + 1}", t + 1)
