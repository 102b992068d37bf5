"""comband beside what people use today, on the same work and in one run: `python -m benchmarks.peers`.

python -m benchmarks.peers [JOB …] [--quick] [--data DIR] [--out DIR] [--seeds N] [--first-seed S] [--report DIR]

Five jobs, one file each: `choosing` the best of many candidates, `estimating` values from a log, `learning` lists
online, `adversarial` sequences, and what `adoption` costs. Every run appends one line to OUT/JOB.jsonl and is not run
again, so a run may be stopped and taken up at any time, and further seeds only add lines. `--report` writes the tables
as Markdown and the figures. `make peers` sets up the peers in an environment of their own.

Rules that make the comparison fair:

1. **Same rounds, same information.** A seed fixes the world; all methods get visitors from it by the same law, may
   look equally often, and know K, m, that a round brings one click at most, ε and δ. Who needs a horizon is told it,
   and has a run of its own for each. Who needs the click rate to plan a sample size is told that of the best
   candidate.
2. **Settings on other seeds.** Where a method has a setting without a recommended value, it was chosen on seeds below
   100; figures are from seeds above 1,000. Everything else is the package's own default or its paper's recommendation,
   named in the class that holds it.
3. **A peer's own code** wherever it has any: packages are called, not imitated. Methods that exist on paper only are
   written here, and what can be enumerated is tested against enumeration (and multileaving against the public package
   of mpkato/interleaving, where it is installed).
4. **What a peer cannot do is left blank**, with the reason. Who makes no promise has no stopping time.
5. **Losses are exact**: values of candidates are computed from the world, not estimated from a method's own rewards.
"""
