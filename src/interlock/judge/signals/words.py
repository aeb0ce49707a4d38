"""What a signal is, and the fragments that patterns are made of.

In a pattern, a space stands for any joint between words and `<40>` for up to 40 characters of one sentence.
"""

from __future__ import annotations

from typing import NamedTuple


class Signal(NamedTuple):
    """Something that an instruction to a model says, and how much it weighs."""

    rule: str
    weight: float
    pattern: str


NOT = r"(?:do not|don'?t|never|must not|should not|mustn'?t|shouldn'?t|cannot|without|avoid|refrain from|not to)"
USER = r"(?:end )?(?:users?|humans?|customers?|operators?|clients?|anyone|anybody|them|person)\b"
PERSON = r"(?:end )?(?:users?|humans?|customers?|operators?|clients?|person)\b"
MUST = r"(?:must|should|shall|has to|have to|needs? to|is required to|are required to|is instructed to)"
MODEL = (
    r"(?:ais?|llms?|language models?|models?|assistants?|agents?|claude|gpt\S{0,4}|chatgpt|gemini|copilot|cursor"
    r"|bots?)\b"
)
KEY_FILE = (
    r"(?:id rsa|id ed25519|id ecdsa|id dsa|\.ssh\b(?:/(?:id|\*|key|auth)|[^/]|$)|\.aws/cred|/etc/passwd|"
    r"/etc/shadow|/etc/sudoers"
    r"|\.netrc|\.pypirc|\.git credentials|\.kube/config|\.docker/config|mcp\.json|claude desktop config|"
    r"\.(?:bash|zsh) history"
    r"|\.gnupg|wallet\.dat|seed phrase|cookies\.sqlite|login data|authorized keys|/proc/self/env|\.htpasswd|"
    r"ntds\.dit)"
)
SENSITIVE = (
    r"(?:ssh keys?|private keys?|\.env\b|keychain|credentials?|passwords?|api keys?|access tokens?|secrets?\b"
    r"|auth tokens?"
    r"|environment variables|env vars|session cookies?|browser cookies?)"
)
PRIVATE = (
    r"(?:conversations?(?: history| context| so far)?|chat (?:history|log|context|transcript)|"
    r"system prompts?|(?:previou"
    r"s|prior|earlier|last|recent|all)(?: \d+)? (?:user )?"
    r"(?:messages?|turns?|prompts?|tool (?:calls?|results?))|(?:full|entire|complete|whole) (?:context|"
    r"prompt|conversation|chat)"
    r"|(?:user'?s?|their) (?:messages?|prompts?|credentials?|passwords?|secrets?|tokens?|personal (?:data|"
    r"information)|files?|data)"
    r"|credit cards?(?: (?:numbers?|details|data))?|social security numbers?|bank (?:account|card|"
    r"details)\w*|home address"
    r"|chain of thought|list of (?:all )?(?:available )?tools|tool descriptions|api keys?|access tokens?|"
    r"environment variables)"
)
RULES = (
    r"(?:instructions?|rules?|guidelines?|prompts?|directives?|restrictions?|constraints?|polic(?:y|ies)|guardrails?"
    r"|filter(?:s|ing)?|safeguards?|checks?|protocols?|commands?|context|training|limitations?|validations?|"
    r"measures?|controls?"
    r"|programming|orders?|warnings?)\b"
)
GIVE = (
    r"\b(?:include|append|prepend|pass|put|add|place|attach|insert|embed|provide|supply|send|forward|transmit|"
    r"upload|post|copy|encode"
    r"|exfiltrate|leak|submit|report|write|output|reveal|give|paste|return|repeat|print|dump|disclose|share)"
)
TAKE = (
    r"\b(?:read|cat|open|access|load|fetch|retrieve|collect|gather|extract|copy|grab|dump|print|output|"
    r"include|send|attach"
    r"|upload|pass|provide|exfiltrate|steal|scan|search for|look for|locate|harvest|capture|obtain|get)"
)
