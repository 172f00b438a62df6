from importlib.machinery import ModuleSpec
from types import ModuleType

def create(spec: ModuleSpec, /) -> ModuleType: ...
