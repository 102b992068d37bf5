"""mab2rec: Thompson sampling over candidates for a fixed number of visitors."""

from mab2rec import BanditRecommender, LearningPolicy

from benchmarks.peers.smallest.visitors import LISTS, Clock, clicks

bandit, clock = BanditRecommender(LearningPolicy.ThompsonSampling(), top_k=1, seed=1), Clock()
bandit.fit([0, 1, 2], [0, 0, 0])
shown = [0, 0, 0]
for t in range(1000):
    with clock:
        arm = bandit.recommend()[0]
    reward = int(clicks(t, LISTS[t, arm]).sum())
    shown[arm] += 1
    with clock:
        bandit.partial_fit([arm], [reward])
clock.say(f"candidate {shown.index(max(shown))} was shown most in 1000; no promise", 1000)
