"""coba: UCB over candidates for a fixed number of visitors."""

from coba.learners import BanditUCBLearner

from benchmarks.peers.smallest.visitors import LISTS, Clock, clicks

learner, clock, shown = BanditUCBLearner(seed=1), Clock(), [0, 0, 0]
for t in range(1000):
    with clock:
        arm, chance = learner.predict(None, [0, 1, 2])
    reward = int(clicks(t, LISTS[t, arm]).sum())
    shown[arm] += 1
    with clock:
        learner.learn(None, arm, reward, chance)
clock.say(f"candidate {shown.index(max(shown))} was shown most in 1000; no promise", 1000)
