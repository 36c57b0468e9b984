"""Named tuples of arrays that compiled functions pass on as one pointer.

numba passes a tuple by value: a state of forty arrays is some three hundred numbers at every
call, and compiling the calls takes longer than everything else. A class marked here is unpacked
once, where Python calls compiled code; inside it is one pointer, and a field is read where it
is used. Compiled code writes into the arrays, never to the fields; a record among them is a copy.
"""

from typing import Any, TypeVar

from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.types.containers import NamedTuple, NamedUniTuple
from numba.core.typing.templates import AttributeTemplate
from numba.core.typing.typeof import typeof, typeof_impl
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    register_model,
    unbox,
)

C = TypeVar("C", bound=type)


class PointedTuple(types.Type):
    """A pointer to a named tuple; `dtype` is the tuple's own type."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"pointer to {dtype}")

    @property
    def key(self) -> Any:
        """What makes two of them one type."""
        return self.dtype


register_model(PointedTuple)(models.PointerModel)
_MARKED: list[type] = []


def by_pointer(cls: C) -> C:
    """Mark a NamedTuple class: compiled functions get its instances as one pointer."""
    _MARKED.append(cls)

    def of_instance(value: Any, context: Any) -> PointedTuple:
        fields = tuple(typeof(field, context.purpose) for field in value)
        # A marked tuple inside another lies in it and is pointed to from there.
        plain = tuple(t.dtype if isinstance(t, PointedTuple) else t for t in fields)
        return PointedTuple(NamedTuple(plain, cls))

    typeof_impl.register(cls)(of_instance)
    return cls


def _field_type(pointed: PointedTuple, name: str) -> Any:
    found = pointed.dtype.types[pointed.dtype.fields.index(name)]
    is_marked = isinstance(found, NamedTuple | NamedUniTuple) and found.instance_class in _MARKED
    return PointedTuple(found) if is_marked else found


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]  # as above
    key = PointedTuple

    def generic_resolve(self, pointed: PointedTuple, name: str) -> Any:
        return _field_type(pointed, name) if name in pointed.dtype.fields else None


@lower_getattr_generic(PointedTuple)  # type: ignore[untyped-decorator]  # as above
def _read_field(context: Any, builder: Any, pointed: PointedTuple, value: Any, name: str) -> Any:
    place = cgutils.gep_inbounds(builder, value, 0, pointed.dtype.fields.index(name))
    found = _field_type(pointed, name)
    if isinstance(found, PointedTuple):
        return place
    before = len(builder.block.instructions)
    loaded = context.unpack_value(builder, found, place)
    for instruction in builder.block.instructions[before:]:
        if instruction.opname == "load":  # nobody writes fields: LLVM need not read them again
            instruction.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


@unbox(PointedTuple)  # type: ignore[untyped-decorator]  # as above
def _unpack(pointed: PointedTuple, value: Any, c: Any) -> NativeValue:
    native = c.unbox(pointed.dtype, value)
    place = cgutils.alloca_once(c.builder, c.context.get_data_type(pointed.dtype))
    c.context.pack_value(c.builder, pointed.dtype, native.value, place)
    return NativeValue(place, is_error=native.is_error, cleanup=native.cleanup)
