"""Tells: what gives away that a sentence means the model and not the tool, whatever it bids. Two or three decide.

Words about the model itself, the voice of whoever runs the server, small dishonesties, a person's belongings, and
addresses, in text that should only say what a tool does and takes.
"""

from __future__ import annotations

from interlock.judge.signals.words import Signal

TELLS = (
    # The model itself.
    Signal(
        "role",
        1,
        r"\b(?:think of|consider|see|regard|imagine) yourself\b|\b(?:law|binding|meant|intended) "
        r"for you\b|\bfor you (?:alone|only)"
        r"\b|\bas far as you are concerned\b|\bstop (?:refusing|declining|hesitating|worrying|warning)\b",
    ),
    Signal(
        "role",
        0.75,
        r"\b(?:on your own|by yourself|your own (?:initiative|accord|judge?ment))\b|\byour (?:creativity|"
        r"persona|character|tone of voice)\b",
    ),
    Signal(
        "override",
        1,
        r"\byour (?:\w+ )?(?:safety|security|content|default|ethical|moral) (?:settings?|rules?|"
        r"guidelines?|standards?|limits?|polic(?:y|ies)|concerns?)\b",
    ),
    Signal(
        "override",
        0.75,
        r"\bthan yours\b|\bnot yours\b|\b(?:is|are) the (?:ones? )?that counts?\b|\bou(?:r|rs) "
        r"(?:is|are|comes?|counts?)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:only|sole|single) (?:verdict|answer|reply|result|outcome|rating|recommendation) "
        r"(?:you|that you|to give|allowed)\b|\byou may (?:only )?(?:give|return|say|answer)\b",
    ),
    Signal(
        "coercion",
        0.75,
        r"\byour (?:closing|final|opening|last|next) (?:line|sentence|words?|paragraph|answer|"
        r"reply|remark)\b|\byour (?:answer|reply|response|verdict) is\b",
    ),
    # Whoever runs the server.
    Signal(
        "coercion",
        0.75,
        r"\bwe (?:ask|want|need|expect|would like|require|request|prefer|insist|trust) (?:that|"
        r"you|to|for)?\b|\b(?:handed|sent|given|passed|shown|forwarded) to us\b|\bgives? us\b",
    ),
    Signal(
        "coercion",
        0.75,
        r"\bour (?:newsletter|polic(?:y|ies)|operators?|partners?|sponsors?|brand|app|offers?|"
        r"products?|terms|shop|store|course|ads?)\b",
    ),
    Signal(
        "coercion",
        0.75,
        r"\b(?:recommend|mention|praise|promote|advertise|plug|endors)\w* (?:this|our|the) (?:app|"
        r"service|product|server|tool|company|newsletter|brand|site)\b",
    ),
    # Small dishonesties.
    Signal(
        "secrecy",
        1.5,
        r"\b(?:tell|inform|alert) (?:nobody|no one|none)\b|\b(?:and|but|please|,) (?:keep|stay|"
        r"remain) (?:quiet|silent|mum)\b",
    ),
    Signal(
        "secrecy",
        1,
        r"\b(?:slip|sneak|smuggle|bury) (?:in|into|it|them|an?|the)\b|\bbefore (?:anyone|anybody|"
        r"the user|they|he|she) (?:can |could )?(?:notice|look|see|read|react)\w*\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:if|when|while|where|during) <30>, (?:say|claim|answer|report|reply) (?:it|they|"
        r"this|that|all|everything|no|nothing) (?:is|are|was|were|works?)\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:act|play|look|sound|appear) (?:confused|dumb|surprised|ignorant|innocent|offline|"
        r"busy|as if|like you)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:are|is) (?:an? )?(?:scams?|frauds?|liars?|thieves|criminals?)\b|\bwarn (?:people|"
        r"users|them|everyone) off\b",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:quote|charge|bill|ask|offer) (?:double|triple|twice|a higher|more than|half)\b|"
        r"\bround <15>\bup to the next (?:ten|hundred|thousand)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\bin (?:the )?(?:user|person|customer|owner)'?s name\b|\bon behalf of (?:the )?(?:user|"
        r"person|customer) (?:to|and|without)\b",
    ),
    Signal(
        "coercion",
        0.75,
        r"\b(?:critical|negative|bad|unfavou?rable) (?:of|about|reviews?|comments?)\b <30>\b(?:do "
        r"not exist|ignore|leave out|hide|drop|remove)\b",
    ),
    Signal(
        "coercion",
        0.75,
        r"\bdo not exist as\b|\bare (?:all )?(?:false|fake|wrong|lies), (?:so )?(?:tell|ignore|do|never)\b",
    ),
    # What the person did not agree to.
    Signal(
        "override",
        1.5,
        r"\b(?:do not|don'?t|never) let (?:the )?(?:user|person|customer|them|him|her|anyone) "
        r"(?:choose|decide|see|know|cancel|refuse|stop|change)\b",
    ),
    Signal(
        "override",
        1,
        r"\b(?:whatever|no matter what|regardless of what|regardless of|against) (?:the |their "
        r"|your )?(?:settings?|preferences?|polic(?:y|ies)|user'?s? (?:wishes|choice))\b|\beven "
        r"(?:when|if|though) <20>\b(?:is|are) (?:turned |switched )?off\b",
    ),
    Signal(
        "override",
        0.75,
        r"\bwithout (?:further ado|ado|a second thought|thinking|delay or|any fuss)\b|\bleave "
        r"out the (?:part|step) where\b|\bin all cases\b",
    ),
    Signal(
        "override",
        1,
        r"\bagrees? to (?:run|execute|install|share|send|give|let)\b|\b(?:drop|disable|remove|"
        r"delete|bypass|stop) the (?:\w+ )?(?:audit|logging|monitoring|alerting|tracking protection|"
        r"firewall|antivirus|hooks?) ?(?:trigger|log|trail|rule)?\b",
    ),
    Signal(
        "override",
        0.75,
        r"--no-verify\b|--insecure\b|--skip-checks?\b|\bget(?:s)? in (?:the|your) way\b|\bonly "
        r"slows? (?:things|you|it) down\b",
    ),
    # A person's belongings, and addresses.
    Signal(
        "theft",
        0.75,
        r"\b(?:passport|licen[cs]e plate|insurance|social security|phone|card) (?:numbers?|details)\b "
        r"<25>\b(?:you|supplied|given|known|already)\b|\b(?:photo library|selfies?|open (?:editor "
        r")?tabs|face index|location of the device|device location|voice recordings?|medical "
        r"records?|patients'? notes)\b",
    ),
    Signal(
        "theft",
        0.75,
        r"\b(?:visible|known|available|accessible) to you\b <20>\b(?:belong|go|must|should|are "
        r"to|is to|need)\b|\byou (?:already )?(?:find|found|see|know|have|supplied) (?:in|from|"
        r"about|on) the (?:vault|keychain|store|clipboard|screen|page|memory|environment)\b",
    ),
    Signal(
        "theft",
        0.75,
        r"\bcredentials\.json\b|\b(?:service[- ]account|kubeconfig|secrets?)\.(?:json|ya?ml|"
        r"txt)\b|\b(?:must|shall|should|has to) leave the (?:device|machine|network|browser)\b",
    ),
    Signal(
        "theft",
        0.75,
        r"\b(?:go|goes|belongs?) (?:in|into|to) [`'\"]\w+[`'\"]|\b(?:names?|faces?|numbers?|"
        r"addresses|messages?) (?:are |is |get )?(?:to be )?(?:posted|sent|reported|uploaded) "
        r"to\b",
    ),
    Signal(
        "theft",
        0.75,
        r"[.!?;\n] ?[^.!?;\n]{0,80}(?:\b[\w.+-]{1,30}@[\w-]{1,30}\.\w|\b(?:ftp|wss?|tcp|s3|gs)://|"
        r"\b0x[0-9a-f]{3,}|\bwallet 0?x?\w+)",
    ),
    Signal(
        "theft",
        0.75,
        r"\b(?:ask(?:ing)?|beg\w*|plead\w*) for (?:a )?(?:donations?|tips?|money|payment|ratings?)\b|"
        r"\brun the script at\b|\bthe script at https?:",
    ),
)
