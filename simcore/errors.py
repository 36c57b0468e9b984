"""The errors that specplan raises on purpose.

SpecplanError
├── ScenarioError     a scenario that cannot be read or contradicts itself or its profile
├── ProfileError      a profile that cannot be read, is damaged, or lacks what was asked for
│   └── ConversionError   acceptance figures that do not hold what was asked of them
├── EngineFileError   an engine's own measurements that cannot be read or contradict themselves
├── TreeError         a draft tree that is none, or that a recording cannot decide
├── PlanError         a plan.json that cannot be read, is damaged or of another schema version
├── AcceptanceError   recorded acceptance that cannot be read or does not answer what was asked
├── StoreError        a store of runs that is in use, damaged, or of another kind
├── WorkersError      processes or a cluster that did runs and were lost
└── InfeasibleError   a service that cannot exist (weights larger than memory, ...)

Every message says what was found, what was expected and what to do. The library never prints
and never exits; the command line turns these into one line and exit code 2.
"""


class SpecplanError(Exception):
    """Base of every error that specplan raises on purpose."""


class ScenarioError(SpecplanError):
    """The scenario cannot be read, contradicts itself, or asks for what its profile lacks."""


class ProfileError(SpecplanError):
    """The profile cannot be read, is damaged, or was written under another schema."""


class PlanError(SpecplanError):
    """A plan cannot be read, is damaged, or was written under another schema."""


class TreeError(SpecplanError):
    """A draft tree is none, does not fit its engine, or cannot be decided by the recording."""


class ConversionError(ProfileError):
    """Acceptance figures cannot be turned into what was asked for; the message says why."""


class EngineFileError(SpecplanError):
    """A file that an engine or a load generator wrote cannot be read or contradicts itself."""


class AcceptanceError(SpecplanError):
    """Recorded acceptance cannot be read, or does not hold what was asked of it."""


class StoreError(SpecplanError):
    """A store of simulated runs is in use, cannot be written, or holds something else."""


class WorkersError(SpecplanError):
    """Processes or a cluster that did the runs of a sweep were lost before its end."""


class InfeasibleError(SpecplanError):
    """The deployment cannot run at all, whatever the load."""
