"""river: Thompson sampling over candidates for a fixed number of visitors."""

from river import bandit, proba

from benchmarks.peers.smallest.visitors import LISTS, Clock, clicks

policy, clock, shown = bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=1), Clock(), [0, 0, 0]
for t in range(1000):
    with clock:
        arm = policy.pull([0, 1, 2])
    reward = bool(clicks(t, LISTS[t, arm]).sum())
    shown[arm] += 1
    with clock:
        policy.update(arm, reward)
clock.say(f"candidate {shown.index(max(shown))} was shown most in 1000; no promise", 1000)
