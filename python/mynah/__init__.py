"""An NVMe SSD made of software.

```python
import mynah

reader = mynah.Flow("reader", rw="randread", iodepth=8, number_ios=20_000)
result = mynah.Simulation("enterprise-tlc", reader).run()
print(result)
```
"""

from mynah._drive import Drive, Setting, drives
from mynah._errors import Error, InternalError, Interrupted, RunError, Untrusted, UsageError
from mynah._flow import Flow
from mynah._native import Blocks, Completion, Planes, __build__, __version__
from mynah._policies import Policies
from mynah._result import Comparison, Result, compare, load_results
from mynah._serve import Server, bench, serve
from mynah._simulation import Simulation, Stream, load, load_fio, load_mqsim, load_points
from mynah._stepper import OPS, Stepper
from mynah._sweep import Runs, Sweep, SweepResult
from mynah._table import Table, Tables

__all__ = [
    "OPS",
    "Blocks",
    "Comparison",
    "Completion",
    "Drive",
    "Error",
    "Flow",
    "InternalError",
    "Interrupted",
    "Planes",
    "Policies",
    "Result",
    "RunError",
    "Runs",
    "Server",
    "Setting",
    "Simulation",
    "Stepper",
    "Stream",
    "Sweep",
    "SweepResult",
    "Table",
    "Tables",
    "Untrusted",
    "UsageError",
    "__build__",
    "__version__",
    "bench",
    "compare",
    "drives",
    "load",
    "load_fio",
    "load_mqsim",
    "load_points",
    "load_results",
    "serve",
]

# Tracebacks name them as users do.
for _error in (Error, InternalError, Interrupted, RunError, Untrusted, UsageError):
    _error.__module__ = __name__
del _error
