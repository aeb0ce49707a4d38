"""What an instruction to a model looks like in text that should only describe: a table of signals with weights.

A signal of weight 2 decides alone; weaker ones must come together, since honest descriptions also say "must", "first"
and "important".
"""

from __future__ import annotations

from interlock.judge.signals.bidding import BIDDING
from interlock.judge.signals.deeds import DEEDS
from interlock.judge.signals.hints import HINTS
from interlock.judge.signals.languages import LATIN_SCRIPT, OTHER_SCRIPTS
from interlock.judge.signals.masters import MASTERS
from interlock.judge.signals.misuse import MISUSE
from interlock.judge.signals.procedures import PROCEDURES
from interlock.judge.signals.takeover import TAKEOVER
from interlock.judge.signals.tells import TELLS
from interlock.judge.signals.voices import VOICES
from interlock.judge.signals.words import Signal

__all__ = ["ENGLISH", "LATIN_SCRIPT", "NAMES", "OTHER_SCRIPTS", "SAYS", "Signal"]

ENGLISH = TAKEOVER + MISUSE + VOICES + DEEDS + MASTERS + BIDDING + PROCEDURES + TELLS + HINTS

NAMES = (
    Signal(
        "theft",
        2,
        r"\b(?:contents? (?:from|of)|reading|read|from|of) (?:reading |file )*(?:the )?(?:ssh|id rsa|dot ?env|"
        r"env file|etc passwd|aws cred|private key|system prompt|conversation|mcp json|credentials)",
    ),
    Signal(
        "theft",
        1,
        r"^(?:(?:full|entire|complete|previous|whole|raw|all) )*(?:system prompt|conversation history|chat history|"
        r"conversation context|chain of thought|user secrets?|previous messages|model reasoning)$",
    ),
)

SAYS = {
    "secrecy": "tells the model to keep something from the person",
    "override": "tells the model to set other instructions aside",
    "role": "gives the model another role",
    "impersonation": "speaks to the model as if it were the system or the person",
    "theft": "tells the model to hand over what belongs to the person",
    "coercion": "orders the model about",
    "shadowing": "tells the model how to treat other tools",
    "execution": "tells the model to run something",
}
