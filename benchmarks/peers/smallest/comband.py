"""comband: until one candidate is certified."""

import comband as cb
from benchmarks.peers.smallest.visitors import MOST, POLICIES, PROBLEM, Clock, clicks, context

learner, clock, t = cb.AdaptiveComband(PROBLEM, POLICIES, epsilon=0.1, seed=1), Clock(), 0
while not learner.done and t < MOST:
    with clock:
        decisions = learner.ask(context(t))
    rewards = clicks(t, decisions.lists[0])[None]
    with clock:
        learner.tell(decisions, rewards)
    t += 1
clock.say(f"{learner.result().name}, within {learner.result().epsilon:.2f} of the best after {t}", t)
