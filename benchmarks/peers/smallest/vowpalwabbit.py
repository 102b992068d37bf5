"""Vowpal Wabbit: a contextual bandit over candidates for a fixed number of visitors."""

import numpy as np
from vowpalwabbit import Workspace

from benchmarks.peers.smallest.visitors import LISTS, Clock, clicks

vw, clock, rng, shown = Workspace("--cb_explore 3 --squarecb --quiet"), Clock(), np.random.default_rng(1), [0, 0, 0]
for t in range(1000):
    with clock:
        chances = np.array(vw.predict("| visitor"))
        arm = rng.choice(3, p=chances / chances.sum())
    cost = -clicks(t, LISTS[t, arm]).sum()
    shown[arm] += 1
    with clock:
        vw.learn(f"{arm + 1}:{cost}:{chances[arm]} | visitor")
clock.say(f"candidate {shown.index(max(shown))} was shown most in 1000; no promise", 1000)
