"""The messages of the session socket as types. Generated from its schema by tools/make-types.py; a test compares them."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict, Union

_AskExecNeeded = TypedDict(
    "_AskExecNeeded",
    {
        "v": Literal[1],
        "do": Literal["exec"],
        "argv": List["Word"],
    },
)

_AskExecMore = TypedDict(
    "_AskExecMore",
    {
        "cwd": Union["Word", None],
        "from": Union["Word", None],
        "background": bool,
        "terminal": Union["Terminal", None],
        "timeout_ms": Union[int, None],
        "fresh": bool,
        "answers": bool,
        "line": Union[bool, None],
        "tools": List["Function"],
        "quiet": bool,
    },
    total=False,
)


class AskExec(_AskExecNeeded, _AskExecMore):
    """Runs a command. Descriptors: its standard streams, without those that are a terminal; none with `background`."""


_AskToolSurroundingsNeeded = TypedDict(
    "_AskToolSurroundingsNeeded",
    {
        "umask": int,
    },
)

_AskToolSurroundingsMore = TypedDict(
    "_AskToolSurroundingsMore",
    {
        "name": Union["Word", None],
        "set": List["Word"],
        "unset": List["Word"],
    },
    total=False,
)


class AskToolSurroundings(_AskToolSurroundingsNeeded, _AskToolSurroundingsMore):
    """What a tool has of the process that has started it."""


_AskToolNeeded = TypedDict(
    "_AskToolNeeded",
    {
        "v": Literal[1],
        "do": Literal["tool"],
        "argv": List["Word"],
        "cwd": "Word",
        "surroundings": "AskToolSurroundings",
    },
)

_AskToolMore = TypedDict(
    "_AskToolMore",
    {
        "terminal": Union["Terminal", None],
    },
    total=False,
)


class AskTool(_AskToolNeeded, _AskToolMore):
    """Runs a tool of the agent whose cage this client is in, in the cage of its session. For the shims of an agent. Descriptors: its standard streams, without those that are a terminal."""


_AskSignalNeeded = TypedDict(
    "_AskSignalNeeded",
    {
        "v": Literal[1],
        "do": Literal["signal"],
        "job": int,
        "signal": int,
    },
)


class AskSignal(_AskSignalNeeded):
    """Passes a signal on to a job."""


_AskFrontNeeded = TypedDict(
    "_AskFrontNeeded",
    {
        "v": Literal[1],
        "do": Literal["front"],
        "job": int,
        "front": bool,
    },
)


class AskFront(_AskFrontNeeded):
    """Lets a stopped job on a terminal go on, as the one that reads from it or not."""


_AskKillNeeded = TypedDict(
    "_AskKillNeeded",
    {
        "v": Literal[1],
        "do": Literal["kill"],
        "job": int,
    },
)


class AskKill(_AskKillNeeded):
    """Ends a job with all its descendants."""


_AskHelloNeeded = TypedDict(
    "_AskHelloNeeded",
    {
        "v": Literal[1],
        "do": Literal["hello"],
    },
)


class AskHello(_AskHelloNeeded):
    """Asks which version the session speaks. Read in any version."""


_AskJobsNeeded = TypedDict(
    "_AskJobsNeeded",
    {
        "v": Literal[1],
        "do": Literal["jobs"],
    },
)


class AskJobs(_AskJobsNeeded):
    """Asks for the session and its jobs."""


_AskLogNeeded = TypedDict(
    "_AskLogNeeded",
    {
        "v": Literal[1],
        "do": Literal["log"],
        "job": int,
    },
)

_AskLogMore = TypedDict(
    "_AskLogMore",
    {
        "follow": bool,
    },
    total=False,
)


class AskLog(_AskLogNeeded, _AskLogMore):
    """Asks for the kept output of a background job; with `follow` its end is told as well."""


_AskAttachNeeded = TypedDict(
    "_AskAttachNeeded",
    {
        "v": Literal[1],
        "do": Literal["attach"],
        "job": int,
    },
)


class AskAttach(_AskAttachNeeded):
    """Asks for the other side of a background job's terminal."""


_AskOfferNeeded = TypedDict(
    "_AskOfferNeeded",
    {
        "v": Literal[1],
        "do": Literal["offer"],
        "names": List["Function"],
    },
)

_AskOfferMore = TypedDict(
    "_AskOfferMore",
    {
        "judged": Dict[str, "Judging"],
        "named": bool,
    },
    total=False,
)


class AskOffer(_AskOfferNeeded, _AskOfferMore):
    """Offers functions of this client to the cages of the session."""


_AskWatchNeeded = TypedDict(
    "_AskWatchNeeded",
    {
        "v": Literal[1],
        "do": Literal["watch"],
    },
)


class AskWatch(_AskWatchNeeded):
    """Has questions of the gate shown to this client."""


_AskDecideNeeded = TypedDict(
    "_AskDecideNeeded",
    {
        "v": Literal[1],
        "do": Literal["decide"],
        "question": int,
        "allow": bool,
    },
)

_AskDecideMore = TypedDict(
    "_AskDecideMore",
    {
        "reach": Literal["once", "session", "project"],
    },
    total=False,
)


class AskDecide(_AskDecideNeeded, _AskDecideMore):
    """Answers a question of the gate."""


_AskCallNeeded = TypedDict(
    "_AskCallNeeded",
    {
        "v": Literal[1],
        "do": Literal["call"],
        "name": str,
        "input": Any,
    },
)


class AskCall(_AskCallNeeded):
    """Calls a function that a client has offered."""


_AskReturnNeeded = TypedDict(
    "_AskReturnNeeded",
    {
        "v": Literal[1],
        "do": Literal["return"],
        "call": int,
    },
)

_AskReturnMore = TypedDict(
    "_AskReturnMore",
    {
        "output": Any,
        "error": Union[str, None],
    },
    total=False,
)


class AskReturn(_AskReturnNeeded, _AskReturnMore):
    """The result of a call, by the client that offered the function: one of the two."""


_AskOwnNeeded = TypedDict(
    "_AskOwnNeeded",
    {
        "v": Literal[1],
        "do": Literal["own"],
    },
)


class AskOwn(_AskOwnNeeded):
    """Makes this client the owner of the session, which ends with the connection."""


_AskWidenNeeded = TypedDict(
    "_AskWidenNeeded",
    {
        "v": Literal[1],
        "do": Literal["widen"],
        "rules": List[str],
        "seconds": int,
    },
)


class AskWiden(_AskWidenNeeded):
    """Allows more of the network to the session, for a time."""


_AskStopNeeded = TypedDict(
    "_AskStopNeeded",
    {
        "v": Literal[1],
        "do": Literal["stop"],
    },
)


class AskStop(_AskStopNeeded):
    """Ends the session."""


Ask = Union[
    AskExec,
    AskTool,
    AskSignal,
    AskFront,
    AskKill,
    AskHello,
    AskJobs,
    AskLog,
    AskAttach,
    AskOffer,
    AskWatch,
    AskDecide,
    AskCall,
    AskReturn,
    AskOwn,
    AskWiden,
    AskStop,
]


_AnswerStartedNeeded = TypedDict(
    "_AnswerStartedNeeded",
    {
        "v": Literal[1],
        "is": Literal["started"],
        "job": int,
    },
)


class AnswerStarted(_AnswerStartedNeeded):
    """The command runs. With a terminal, one descriptor: its other side."""


_AnswerStoppedNeeded = TypedDict(
    "_AnswerStoppedNeeded",
    {
        "v": Literal[1],
        "is": Literal["stopped"],
        "job": int,
        "signal": int,
    },
)


class AnswerStopped(_AnswerStoppedNeeded):
    """A job on a terminal was stopped."""


_AnswerEndedHintNeeded = TypedDict(
    "_AnswerEndedHintNeeded",
    {
        "fact": str,
        "remedy": str,
    },
)


class AnswerEndedHint(_AnswerEndedHintNeeded):
    """Why a command that failed may have done so in a cage."""


_AnswerEndedNeeded = TypedDict(
    "_AnswerEndedNeeded",
    {
        "v": Literal[1],
        "is": Literal["ended"],
        "job": int,
        "exit": int,
        "signal": Union[int, None],
        "limit": Union[str, None],
    },
)

_AnswerEndedMore = TypedDict(
    "_AnswerEndedMore",
    {
        "hint": "AnswerEndedHint",
    },
    total=False,
)


class AnswerEnded(_AnswerEndedNeeded, _AnswerEndedMore):
    """A job has ended."""


_AnswerSaidNeeded = TypedDict(
    "_AnswerSaidNeeded",
    {
        "v": Literal[1],
        "is": Literal["said"],
        "text": str,
    },
)


class AnswerSaid(_AnswerSaidNeeded):
    """Lines for a person, about what was found in the project."""


_AnswerJobsNeeded = TypedDict(
    "_AnswerJobsNeeded",
    {
        "v": Literal[1],
        "is": Literal["jobs"],
        "session": str,
        "pid": int,
        "profile": Union[str, None],
        "shell": bool,
        "jobs": List["Job"],
    },
)

_AnswerJobsMore = TypedDict(
    "_AnswerJobsMore",
    {
        "directory": str,
    },
    total=False,
)


class AnswerJobs(_AnswerJobsNeeded, _AnswerJobsMore):
    """The session and its jobs."""


_AnswerLogNeeded = TypedDict(
    "_AnswerLogNeeded",
    {
        "v": Literal[1],
        "is": Literal["log"],
        "job": int,
        "ended": bool,
    },
)


class AnswerLog(_AnswerLogNeeded):
    """One descriptor: the output, to be read."""


_AnswerAttachedNeeded = TypedDict(
    "_AnswerAttachedNeeded",
    {
        "v": Literal[1],
        "is": Literal["attached"],
        "job": int,
    },
)


class AnswerAttached(_AnswerAttachedNeeded):
    """Two descriptors: one to write keys to, one to read from what is shown."""


_AnswerDoneNeeded = TypedDict(
    "_AnswerDoneNeeded",
    {
        "v": Literal[1],
        "is": Literal["done"],
    },
)


class AnswerDone(_AnswerDoneNeeded):
    """The request was carried out."""


_AnswerHelloNeeded = TypedDict(
    "_AnswerHelloNeeded",
    {
        "v": Literal[1],
        "is": Literal["hello"],
        "protocol": int,
        "keyward": str,
    },
)


class AnswerHello(_AnswerHelloNeeded):
    """The version of the protocol, and of the program that speaks it."""


_AnswerCalledNeeded = TypedDict(
    "_AnswerCalledNeeded",
    {
        "v": Literal[1],
        "is": Literal["called"],
        "call": int,
        "name": str,
        "input": Any,
        "from_inside": bool,
    },
)


class AnswerCalled(_AnswerCalledNeeded):
    """To the client that offered the function: it is called."""


_AnswerReturnedNeeded = TypedDict(
    "_AnswerReturnedNeeded",
    {
        "v": Literal[1],
        "is": Literal["returned"],
        "output": Any,
    },
)


class AnswerReturned(_AnswerReturnedNeeded):
    """The result of a call."""


_AnswerQuestionNeeded = TypedDict(
    "_AnswerQuestionNeeded",
    {
        "v": Literal[1],
        "is": Literal["question"],
        "question": int,
        "digest": str,
        "rule": Union[str, None],
        "class": Union[str, None],
        "reason": str,
        "argv": List[str],
        "from_inside": bool,
    },
)


class AnswerQuestion(_AnswerQuestionNeeded):
    """A question waits for an answer. One descriptor: the whole question, as `question.json` has it."""


_AnswerSettledNeeded = TypedDict(
    "_AnswerSettledNeeded",
    {
        "v": Literal[1],
        "is": Literal["settled"],
        "question": int,
    },
)


class AnswerSettled(_AnswerSettledNeeded):
    """This question is no longer pending."""


_AnswerRefusedNeeded = TypedDict(
    "_AnswerRefusedNeeded",
    {
        "v": Literal[1],
        "is": Literal["refused"],
        "exit": Union[int, None],
        "fact": str,
        "remedy": str,
        "code": "Code",
    },
)

_AnswerRefusedMore = TypedDict(
    "_AnswerRefusedMore",
    {
        "rule": str,
        "retry": bool,
    },
    total=False,
)


class AnswerRefused(_AnswerRefusedNeeded, _AnswerRefusedMore):
    """Nothing was done: the fact, and what one can do."""


Answer = Union[
    AnswerStarted,
    AnswerStopped,
    AnswerEnded,
    AnswerSaid,
    AnswerJobs,
    AnswerLog,
    AnswerAttached,
    AnswerDone,
    AnswerHello,
    AnswerCalled,
    AnswerReturned,
    AnswerQuestion,
    AnswerSettled,
    AnswerRefused,
]


Word = Union[str, List[int]]


Function = str


_TerminalNeeded = TypedDict(
    "_TerminalNeeded",
    {
        "rows": int,
        "columns": int,
    },
)

_TerminalMore = TypedDict(
    "_TerminalMore",
    {
        "streams": List[bool],
        "front": bool,
    },
    total=False,
)


class Terminal(_TerminalNeeded, _TerminalMore):
    """A terminal of the cage's own."""


_JudgingNeeded = TypedDict(
    "_JudgingNeeded",
    {
        "as": Literal["sh", "python", "js", "argv", "ask"],
    },
)

_JudgingMore = TypedDict(
    "_JudgingMore",
    {
        "field": Union[str, None],
    },
    total=False,
)


class Judging(_JudgingNeeded, _JudgingMore):
    """How the gate judges the input of a function."""


_JobNeeded = TypedDict(
    "_JobNeeded",
    {
        "job": int,
        "argv": List[str],
        "background": bool,
        "terminal": bool,
        "fresh": bool,
        "seconds": int,
        "exit": Union[int, None],
        "output": int,
    },
)


class Job(_JobNeeded):
    """A job of the session."""


Code = Literal["usage", "policy-mistake", "policy-unreadable", "unknown-profile", "beyond-ceiling", "request-unfit", "refused", "floor-missing", "denied", "limit-reached", "command-not-found", "command-not-executable", "cage-failed", "changed-meanwhile", "project-unguarded", "record-unwritable", "record-unreadable", "approvals-unusable", "approvals-busy", "approval-unknown", "approval-answered", "terminal-missing", "secret-unknown", "secret-unavailable", "secret-locked", "store-unusable", "store-busy", "token-used", "session-unknown", "session-taken", "session-ended", "session-unreachable", "session-failed", "session-full", "job-unknown", "only-outside", "read-refused", "file-unusable", "answer-unwritten", "witness-unreached", "services-unusable", "proxy-failed", "internal"]
