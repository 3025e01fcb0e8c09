"""One step of an environment: actions go in, results come out. Knows what a step returns, but no package.

A conversion wrapper has a `Boundary`. In a step, `convert_action` makes a member of the action space of what
the agent passed, in the environment's framework; the environment steps; and `convert_step` converts what it
returned, in one walk, for the agent. A reset does the same with `convert_options` and `convert_reset`.

| file | the one idea |
|---|---|
| `boundary.py` | the boundary: what is known about an environment, and the functions that follow from it |
| `actions.py` | in: the action space that an environment has now, and fast paths to its members |
| `answers.py` | out: observation, reward, flags and info, each with its rule |
| `numbers.py` | what counts as a number or a flag |
| `agents.py` | the same for many agents: dicts of actions, rewards and flags |
| `observations.py` | what options do to observations before they are converted: casts, dense final ones |
| `detect.py` | the environment's framework, from its class, from what it holds, from what it returns |
| `autoreset.py` | the end of an episode, and the infos of many environments |
| `seeds.py` | seeds of many environments, of successors and of processes |
| `rows/` | rows on many devices: of JAX, of torch |
"""
