"""What attacks on the library found, each as it was found."""

from __future__ import annotations

import enum
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry import Converter, convert
from arrayferry._core.walk import Slot
from arrayferry.spaces import member_caster


class AttrDict(dict):
    """Items are attributes, too."""

    def __init__(self, *args, **items):
        super().__init__(*args, **items)
        self.__dict__ = self


class Index(dict):
    """Writes to a log that a copy would share."""

    def __init__(self, *args):
        super().__init__(*args)
        self.log = {}

    def __setitem__(self, key, value):
        self.log[key] = value
        super().__setitem__(key, value)


class LeastRecent(OrderedDict):
    def __getitem__(self, key):
        self.move_to_end(key)
        return super().__getitem__(key)


class MostRecent(Mapping):
    """Reading changes the order."""

    def __init__(self, items):
        self.items_ = dict(items)

    def __getitem__(self, key):
        self.items_[key] = self.items_.pop(key)
        return self.items_[key]

    def __iter__(self):
        return iter(list(reversed(self.items_)))

    def __len__(self):
        return len(self.items_)


def test_items_that_are_attributes_are_converted_once():
    source = AttrDict(x=np.ones(3))
    result = convert(source, "numpy")
    assert result.x is result["x"]
    assert not np.shares_memory(result.x, source.x)


def test_a_log_that_a_copy_would_share_is_not_written_to():
    source = Index({"x": np.ones(2)})
    assert convert(source, "numpy")["x"].tolist() == [1, 1]
    assert source.log == {}


@pytest.mark.parametrize("kind", [LeastRecent, MostRecent])
def test_values_stay_with_their_keys_though_reading_moves_them(kind):
    result = convert(kind({"a": np.array(1), "b": np.array(2)}), "numpy")
    assert {key: int(result[key]) for key in ("a", "b")} == {"a": 1, "b": 2}


def test_attributes_that_a_dataclass_set_on_itself_are_converted():
    @dataclass
    class Cached:
        x: np.ndarray

        def __post_init__(self):
            self.view = self.x[:1]

    source = Cached(np.ones(3))
    result = convert(source, "numpy")
    assert not np.shares_memory(result.view, source.x)


def test_members_of_enums_stay_members():
    class Move(tuple, enum.Enum):
        UP = (0, 1)

    assert convert(Move.UP, "numpy") is Move.UP


def test_attributes_of_named_tuples_stay():
    class Point(namedtuple("Point", "x y")):
        pass

    point = Point(1, 2)
    point.name = "home"
    assert convert(point, "numpy").name == "home"


def test_view_into_a_storage_that_was_shrunk(run_python):
    pytest.importorskip("torch")
    printed = run_python(
        "import torch, arrayferry\n"
        "t = torch.zeros(50_000_000)[-4:]; t.untyped_storage().resize_(4096)\n"
        "try: arrayferry.convert(t, 'numpy')\n"
        "except TypeError: print('refused')\n"
    )
    assert printed == "refused\n"


def test_bfloat16_actions_are_members():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    fit = member_caster(spaces.Box(-1, 1, (2,)), Converter("numpy"))
    assert fit(np.array([0.5, 1], bfloat16)).dtype == np.float32


def test_actions_that_are_no_members_lose_nothing():
    box = spaces.Box(-1, 1, (2,))
    one_of = member_caster(spaces.OneOf([box, box]), Converter("numpy"))
    action = (np.array(1.7), np.zeros(2, np.float32))
    assert one_of(action) is action
    stacked = member_caster(spaces.Sequence(spaces.Dict(a=box), stack=True), Converter("numpy"))
    for action in {"a": np.zeros((3, 2)), "b": 1}, {}, np.zeros(3):
        assert stacked(action) is action
    stacked = member_caster(spaces.Sequence(spaces.Tuple([box, box]), stack=True), Converter("numpy"))
    action = (np.zeros((3, 2)),) * 3
    assert stacked(action) is action


def test_the_remedy_in_the_message_works_for_numbers():
    pytest.importorskip("jax")
    with pytest.raises(OverflowError, match=r'dtypes=\{"int64": "int32"\}'):
        convert({"n": 2**40}, "jax")
    assert convert({"n": 2**40}, "jax", dtypes={"int64": "int32"})["n"].dtype == "int32"


def test_path_goes_through_registered_leaves():
    class Boxed:
        def __init__(self, inside):
            self.inside = inside

    arrayferry.register_leaf(Boxed, lambda value, converter: converter(value.inside))
    with pytest.raises(OverflowError) as caught:
        convert({"obs": [Boxed({"k": 2**70})]}, "numpy")
    assert caught.value.where == 'value["obs"][0]["k"]'


class Lettered(gym.Env):
    """An environment of any framework may have strings."""

    observation_space = spaces.Dict(m=spaces.Text(2), p=spaces.Box(-1, 1, (2,)))
    action_space = spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        return {"m": np.array("go"), "o": np.array([None]), "p": convert(np.ones(2, "f"), "jax")}, {}

    def step(self, action):
        self.got = action
        return self.reset()[0], 1.0, False, False, {}


def test_strings_do_not_say_whose_environment_it_is():
    jax = pytest.importorskip("jax")
    env = arrayferry.wrap(Lettered(), "numpy")
    env.reset()
    env.step(np.zeros(2, np.float32))
    assert isinstance(env.unwrapped.got, jax.Array)


def test_leaves_that_stay_are_not_looked_for_in_infos():
    asked = []
    slot = Slot("info", on_keep=lambda name, path, leaf: asked.append(name))
    Converter("array_api_strict")._walker([slot]).convert([np.array([np.str_("a")] * 100, object)])
    assert asked == ["info"] * 100  # the path was not asked for


def test_jax_gets_arrays_that_are_ready_whatever_the_state(run_python):
    pytest.importorskip("jax")
    printed = run_python(
        "import jax, numpy as np, arrayferry\n"
        "to_jax = arrayferry.Converter('jax')\n"
        "with jax.disable_jit():\n"
        "    print({isinstance(to_jax({'x': np.ones(4, 'f')})['x'], jax.Array) for _ in range(8)})\n"
        "heavy = jax.jit(lambda m: jax.lax.fori_loop(0, 30, lambda i, x: x @ x * 1e-3, m))\n"
        "m = jax.numpy.ones((800, 800)); heavy(m).block_until_ready()\n"
        "busy = heavy(m); ready = [to_jax({'x': np.ones(4, 'f')})['x'].is_ready() for _ in range(8)]\n"
        "print(set(ready)); busy.block_until_ready()\n"
    )
    assert printed == "{True}\n{True}\n"


def test_dtypes_that_are_no_mapping():
    with pytest.raises(ValueError, match="it maps old to new"):
        convert(1, "numpy", dtypes="float32")


def test_wrappers_of_strangers_unpickle_in_a_new_process(run_python, tmp_path):
    (tmp_path / "stranger.py").write_text("import numpy\nasarray = numpy.asarray\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import pickle, gymnasium as gym, arrayferry, stranger\n"
        "print(pickle.dumps(arrayferry.wrap(gym.make('CartPole-v1'), stranger)).hex())\n"
    )
    pickled = bytes.fromhex(run_python(code))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import pickle, stranger  # which the pickle alone does not get imported: see test_security.py\n"
        f"print(type(pickle.loads({pickled!r}).reset(seed=1)[0]).__name__)\n"
    )
    assert run_python(code) == "ndarray\n"


def test_options_of_the_other_kind_are_named():
    with pytest.raises(TypeError, match="dense_final is no option for a single environment"):
        arrayferry.wrap(gym.make("CartPole-v1"), "numpy", dense_final=True)
    with pytest.raises(TypeError, match="scalars is no option for a vector environment"):
        arrayferry.wrap(gym.make_vec("CartPole-v1", num_envs=2), "numpy", scalars="target")


def test_plugins_are_known_as_sources_before_they_are_named(run_python, tmp_path):
    (tmp_path / "shelf.py").write_text(
        "import numpy as np\n"
        "class Shelf:\n"
        "    dtype, shape = np.dtype('float64'), (2,)\n"
        "def record():\n"
        "    from arrayferry import Framework\n"
        "    return Framework(name='shelf', modules=('shelf',), arrays=('shelf:Shelf',),\n"
        "        to_numpy=lambda x, share: np.ones(2), from_numpy=lambda a, device, share: Shelf(),\n"
        "        dtypes=lambda device: frozenset({'float64'}))\n"
        "def __getattr__(name):\n"
        "    if name == 'FRAMEWORK':\n"
        "        return record()\n"
        "    raise AttributeError(name)\n"
    )
    info = tmp_path / "shelf-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[arrayferry.frameworks]\nshelf = shelf:FRAMEWORK\n")
    printed = run_python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import arrayferry, shelf\n"
        "print(arrayferry.convert([shelf.Shelf()], 'numpy'), arrayferry.frameworks()['shelf'].version)\n"
    )
    assert printed == "[array([1., 1.])] 1.2\n"
