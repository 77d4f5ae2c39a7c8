"""How a method is written once for both: on a `Relay` it returns its answer, on an `AsyncRelay` it is awaited.

A resource holds the operations of one kind. Its methods are functions that build one call (`Operation`), steps that are
more than one call (`Procedure`), or steps that yield values as they go (`Iteration`).
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import update_wrapper
from inspect import signature
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from relay_client.call import Call
from relay_client.carrier import Carrier, Patience
from relay_client.errors import InvalidAnswer, UsageError
from relay_client.steps import Answer, Items, NoAnswer, Steps

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E")


class Sync:
    """Marks a resource whose methods block until they are done."""


class Async:
    """Marks a resource whose methods are awaited."""


M_co = TypeVar("M_co", covariant=True)


class Runner(Protocol):
    """What carries out steps: a `Relay` or an `AsyncRelay`."""

    @property
    def carrier(self) -> Carrier: ...
    @property
    def patience(self) -> Patience: ...
    def run(self, steps: Steps[Any]) -> Any: ...
    def iterate(self, steps: Items[Any]) -> Any: ...


class Resource(Generic[M_co]):
    """Operations of one kind."""

    def __init__(self, relay: Runner) -> None:
        self.relay = relay

    def carry(self, call: Call[T]) -> Steps[T]:
        """The steps of a call, for a procedure."""
        return self.relay.carrier.carry(call, self.relay.patience)

    def open_stream(self, call: Call[Any], silence: float) -> Steps[Answer]:
        """The steps that open a stream; what follows is `Read`."""
        return self.relay.carrier.answer(call, self.relay.patience, silence)


class _Method:
    """A descriptor: the first use of a method stores it on the resource, where the next finds it without this."""

    name = ""

    def __set_name__(self, owner: object, name: str) -> None:
        self.name = name

    def _stored_on(self, resource: Resource[Any], method: Any, documented: Any) -> Any:
        resource.__dict__[self.name] = update_wrapper(method, documented)
        return method


class Operation(_Method, Generic[P, T]):
    """A method made of a function that builds its call."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self.build = build
        update_wrapper(self, build)  # pyright: ignore[reportArgumentType]

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        """What would be sent. Raises UsageError for values that cannot be sent, such as a set, a `datetime`, or text
        with lone surrogates; wrong parameters raise TypeError, as for any function.
        """
        try:
            return self.build(None, *args, **kwargs)
        except UsageError:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            try:
                signature(self.build).bind(None, *args, **kwargs)
            except TypeError:
                raise error from None  # which names the method
            raise UsageError(f"this cannot be sent: {error}") from error

    @overload
    def __get__(self, resource: None, owner: object = None) -> "Operation[P, T]": ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: object = None) -> Any:
        if resource is None:
            return self
        relay = resource.relay

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return relay.run(relay.carrier.carry(self.call(*args, **kwargs), relay.patience))

        return self._stored_on(resource, method, self.build)


class Procedure(_Method, Generic[P, T]):
    """A method made of steps that are more than one call."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps

    @overload
    def __get__(self, resource: Resource[Sync], owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, resource: Resource[Any], owner: object = None) -> Any:
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return resource.relay.run(_checked(self.steps(resource, *args, **kwargs)))

        return self._stored_on(resource, method, self.steps)


class Iteration(_Method, Generic[P, T]):
    """A method made of steps that yield values, for `for` or `async for`."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Items[T]]) -> None:
        self.steps = steps

    @overload
    def __get__(self, resource: Resource[Sync], owner: object = None) -> Callable[P, Generator[T, None, None]]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: object = None) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, resource: Resource[Any], owner: object = None) -> Any:
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return resource.relay.iterate(_checked(self.steps(resource, *args, **kwargs)))

        return self._stored_on(resource, method, self.steps)


def _checked(steps: Generator[E, Any, T]) -> Generator[E, Any, T]:
    """The same steps. A field that they miss in an answer, or find to be of another type, is InvalidAnswer."""
    try:
        effect = next(steps)  # before anything is asked, it is an argument that is wrong
    except StopIteration as end:
        return end.value
    try:
        while True:
            try:
                result = yield effect
            except NoAnswer as lost:
                effect = steps.throw(lost)
            else:
                effect = steps.send(result)
    except StopIteration as end:
        return end.value
    except KeyError as missing:
        raise InvalidAnswer(f"the answer has no {missing}") from missing
    except (TypeError, AttributeError) as odd:
        raise InvalidAnswer(f"the answer does not look like a node's: {odd}") from odd
    finally:
        steps.close()
