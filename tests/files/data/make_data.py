"""Makes the files beside it with NumPy and the safetensors library; tests/files reads them.

    python3 -m venv build-data
    build-data/bin/pip install numpy==2.4.6 safetensors==0.8.0 ml_dtypes
    build-data/bin/python tests/files/data/make_data.py

Every array holds 0, 1, 2, ... in C order, unless its name says otherwise.
"""

import pathlib

import ml_dtypes
import numpy as np
import safetensors
from numpy.lib import format as npy_format
from safetensors.numpy import save_file

here = pathlib.Path(__file__).parent


def counting(dtype, shape=(2, 3)):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


for code in ["f8", "f4", "f2", "i8", "i4", "i1", "u1", "b1"]:
    np.save(here / f"{code}.npy", counting(code))
np.save(here / "fortran.npy", np.asfortranarray(counting("f4", (2, 3, 4))))
np.save(here / "scalar.npy", np.float64(7.0))
np.save(here / "empty.npy", counting("f4", (3, 0, 2)))
np.save(here / "one_axis.npy", counting("i4", (5,)))
for version in [(2, 0), (3, 0)]:
    with open(here / f"version{version[0]}.npy", "wb") as file:
        npy_format.write_array(file, counting("f4"), version=version)

np.save(here / "big_endian.npy", counting(">f4"))
np.save(here / "structured.npy", np.zeros(2, dtype=[("x", "<f4"), ("y", "<i4")]))
np.save(here / "object.npy", np.array([{"x": 1}, None], dtype=object), allow_pickle=True)
np.save(here / "complex.npy", counting("c8"))
np.save(here / "text.npy", np.array(["ab", "c"]))
np.save(here / "bfloat16.npy", counting(ml_dtypes.bfloat16))
np.save(here / "float8.npy", counting(ml_dtypes.float8_e4m3fn))

named = {
    "f64": "f8", "f32": "f4", "f16": "f2", "bf16": ml_dtypes.bfloat16, "i64": "i8", "i32": "i4",
    "i8": "i1", "u8": "u1", "bool": "b1", "u16": "u2",
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}
library_names = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64",
    "i32": "int32", "i8": "int8", "u8": "uint8", "bool": "bool", "u16": "uint16",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
}
arrays = {name: counting(dtype) for name, dtype in named.items()}
library_names |= {"empty": "float32", "scalar": "float32"}
arrays |= {"empty": counting("f4", (0, 4)), "scalar": np.array(7.0, "f4")}
specs = {
    name: safetensors.TensorSpec(dtype=library_names[name], shape=list(array.shape),
                                 data_ptr=array.ctypes.data, data_len=array.nbytes)
    for name, array in arrays.items()
}
(here / "types.safetensors").write_bytes(
    safetensors.serialize(specs, {"made by": "the safetensors library"}))
save_file({"only": counting("f4")}, here / "one.safetensors")
