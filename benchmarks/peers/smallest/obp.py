"""obp: Thompson sampling over candidates for a fixed number of visitors."""

from obp.policy import BernoulliTS

from benchmarks.peers.smallest.visitors import LISTS, Clock, clicks

policy, clock, shown = BernoulliTS(n_actions=3, random_state=1), Clock(), [0, 0, 0]
for t in range(1000):
    with clock:
        arm = int(policy.select_action()[0])
    reward = int(clicks(t, LISTS[t, arm]).sum())
    shown[arm] += 1
    with clock:
        policy.update_params(action=arm, reward=reward)
clock.say(f"candidate {shown.index(max(shown))} was shown most in 1000; no promise", 1000)
