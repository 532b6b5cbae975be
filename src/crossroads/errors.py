"""Every error that Crossroads raises on purpose, in one tree; each says whose fault it is.

    CrossroadsError
    ├── UsageError             the caller: flags or arguments that cannot work           exit 2
    ├── InputError             the data: something we were given to read                 exit 1
    │   ├── SchemaError            a schema that makes no sense
    │   ├── FilterError            a filter we refuse; knows the position and what was expected
    │   ├── EventError             an event that does not fit its schema
    │   ├── SubscriptionError      a subscription row that cannot be used
    │   ├── SourceError            a file or folder that cannot be read as promised
    │   ├── ScenarioError          a scenario file; knows the line and what was expected
    │   └── IndexFileError         an index file we will not open
    │       ├── DamagedIndex           truncated, changed, or half-written
    │       ├── ForeignIndex           not an index, or of another format version
    │       └── OtherSchema            made for another schema
    ├── RejectedInput          `--strict` was asked for and something was rejected        exit 3
    ├── OutputError            the output folder: in use, not ours, not writable          exit 1
    ├── CheckpointError        the checkpoint of a stream: another one's, damaged, full   exit 1
    ├── NotQuiet               a simulation that did not come to rest within its bound    exit 1
    └── EnvironmentProblem     the machine: what to install or to free                    exit 1
        ├── JavaMissing
        ├── TooLittleMemory
        └── NotShared              workers do not see files that the driver sees
            ├── InputNotShared
            └── OutputNotShared

The message is one line that says what is wrong; `hint` says what to do about it.
"""

from __future__ import annotations


class CrossroadsError(Exception):
    """Base of all errors raised on purpose. `str(error)` is one line fit for a person."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark workers to the driver: keyword arguments must survive pickling.
        return (_rebuild, (type(self), dict(self.__dict__), self.args))


def _rebuild(
    kind: type[CrossroadsError], state: dict[str, object], args: tuple[object, ...]
) -> CrossroadsError:
    error = kind.__new__(kind)
    error.__dict__.update(state)
    error.args = args
    return error


class UsageError(CrossroadsError):
    """The request itself cannot work: correct the flags or arguments and try again."""

    exit_code = 2


class InputError(CrossroadsError):
    """Something we were given to read is wrong; the message says where and why."""


class SchemaError(InputError):
    """Correct the schema file or the arguments of `Schema`."""


class FilterError(InputError):
    """A filter we refuse. `position` is a 0-based offset into its text, where it is known."""

    def __init__(
        self,
        message: str,
        *,
        position: int | None = None,
        expected: str | None = None,
        subscription: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.position = position
        self.expected = expected
        self.subscription = subscription

    def __str__(self) -> str:
        where = f"subscription {self.subscription}: " if self.subscription is not None else ""
        place = f" at position {self.position + 1}" if self.position is not None else ""
        expected = f"; expected {self.expected}" if self.expected else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{self.message}{place}{expected}{hint}"

    def of(self, subscription: str) -> FilterError:
        """The same error, naming the subscription it came from."""
        return FilterError(
            self.message,
            position=self.position,
            expected=self.expected,
            subscription=subscription,
            hint=self.hint,
        )


class EventError(InputError):
    """The event does not fit the schema; it goes to the rejects with this reason."""


class SubscriptionError(InputError):
    """The subscription row cannot be used; it goes to the rejects with this reason."""


class SourceError(InputError):
    """A file or folder cannot be read as what it was said to be."""


class ScenarioError(InputError):
    """A scenario file is wrong, or the run was not as it says: file, line, what was expected."""

    def __init__(self, message: str, *, file: str, line: int, expected: str | None = None) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.expected = expected

    def __str__(self) -> str:
        expected = f"; expected {self.expected}" if self.expected else ""
        return f"{self.file}:{self.line}: {self.message}{expected}"


class IndexFileError(InputError):
    """An index file we will not open: build it again."""


class DamagedIndex(IndexFileError):
    """Truncated, changed on disk, or half-written: delete it and build it again."""


class ForeignIndex(IndexFileError):
    """Not an index of ours, or of a format version this release does not read."""


class OtherSchema(IndexFileError):
    """The index was made for another schema; the message says what differs."""


class RejectedInput(CrossroadsError):
    """`--strict` was asked for and at least one event or subscription was rejected."""

    exit_code = 3


class OutputError(CrossroadsError):
    """The output folder is in use, is not ours to replace, or cannot be written."""


class CheckpointError(CrossroadsError):
    """The checkpoint of a stream belongs to another stream, is damaged or cannot be written."""


class NotQuiet(CrossroadsError):
    """A simulation was still busy at its bound; the message says when, and with what.

    Allow it more time, or look for what never ends: a retry without a limit, a message that two
    nodes send back and forth.
    """


class EnvironmentProblem(CrossroadsError):
    """The machine lacks something; the hint says exactly what to install or to free."""


class JavaMissing(EnvironmentProblem):
    """No Java 17 or newer was found."""


class TooLittleMemory(EnvironmentProblem):
    """There is not enough memory to start Spark safely."""


class NotShared(EnvironmentProblem):
    """Workers on other machines do not see a file or folder that the driver sees."""


class InputNotShared(NotShared):
    """An input file is not there, or is another one, where a worker runs."""


class OutputNotShared(NotShared):
    """The output folder is not there, or is another one, where a worker runs."""
