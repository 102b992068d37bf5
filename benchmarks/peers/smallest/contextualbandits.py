"""contextualbandits: LinUCB over candidates for a fixed number of visitors."""

import numpy as np
from contextualbandits.online import LinUCB

from benchmarks.peers.smallest.visitors import LISTS, Clock, clicks

policy, clock, shown, one = LinUCB(nchoices=3, alpha=0.5, random_state=1), Clock(), [0, 0, 0], np.ones((1, 1))
# Of α = 0.1, 0.3, 0.5 and 1 (the default), 0.3 and 0.5 find the best of these three candidates.
for t in range(1000):
    with clock:
        arm = int(policy.predict(one)[0])
    reward = clicks(t, LISTS[t, arm]).sum()
    shown[arm] += 1
    with clock:
        policy.partial_fit(one, np.array([arm]), np.array([reward]))
clock.say(f"candidate {shown.index(max(shown))} was shown most in 1000; no promise", 1000)
