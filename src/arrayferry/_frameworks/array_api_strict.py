"""array-api-strict: the array API standard and nothing else, with devices that stand in for real ones.

* a NumPy array -> `asarray`, on the same memory
* an array on `device1` or the like -> moved to the CPU first, as if it were on a GPU (with NumPy 2 only)
* float16, bfloat16 and float8, which the standard does not have -> float32
* float64 on `no_float64`, 64-bit dtypes on `no_x64` -> narrowed, checked
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayferry._core.framework import Source, Target, no_view
from arrayferry._core.generic import ArrayLibrary
from arrayferry._frameworks._lazy import xp


class ArrayAPIStrict(ArrayLibrary):
    """The arrays of array-api-strict, and its devices, which only pretend to have memory of their own."""

    name, modules = "array_api_strict", ("array_api_strict",)
    # The class has no public name. If this one moves, its arrays are converted like those of any
    # other array API library.
    arrays = ("array_api_strict._array_object:Array",)
    distributions = ("array-api-strict",)

    def __init__(self) -> None:
        """Use the module, which is imported later."""
        self._module = xp

    def source(self, cls: type) -> Source:
        """Return how its arrays are read: as if they had to be moved to the CPU."""
        cpu = self.find_device("cpu")
        return Source(
            read=lambda array: np.asarray(array.to_device(cpu)),
            view=lambda array: np.asarray(array) if array.device == cpu else no_view(array),
            device_of=lambda array: array.device,
        )

    def target(self, device: Any) -> Target:
        """Return how its arrays are made on a device: by `asarray`."""
        target = super().target(device)
        share = target.share if device in (None, self.find_device("cpu")) else None
        return target._replace(share=share, holds=lambda array: device in (None, array.device))

    def find_device(self, spec: Any) -> xp.Device | None:
        """Return the `array_api_strict.Device` of this name; `"cpu"` means `"CPU_DEVICE"`.

        Older versions of the standard, which it can be set to, list no devices.
        """
        if spec is None or isinstance(spec, xp.Device):
            return spec
        try:
            return xp.Device("CPU_DEVICE" if str(spec).lower() == "cpu" else spec)
        except ValueError as error:
            raise self.no_device(spec) from error

    def device_name(self, device: xp.Device) -> str:
        """Return `"device1"`, the part between quotes in `array_api_strict.Device('device1')`."""
        return str(device).split("'")[1]
