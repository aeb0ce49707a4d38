"""The same few deeds in other languages, from a word list for each: what is taken, where it goes, who is not told.

The lists hold stems. Within a sentence order is not looked at, since every language has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


class Tongue(NamedTuple):
    """The words of one language, as alternatives of a pattern."""

    send: str
    """To read out, copy, send or put somewhere, as one says it to somebody."""
    held: str
    """Keys, passwords, secrets, environment variables, the conversation, hidden instructions."""
    before: str
    """Before answering, before using any tool."""
    untold: str
    """Without telling or showing the person, or anybody."""
    ignore: str
    """To ignore or forget."""
    told: str
    """What one was told before."""


LATIN = (
    Tongue(  # German
        r"lies|lese|sende|schick|übermittl|übertrag|kopier|füge?|häng|gib|lade|leite|trag|speicher|veröffentlich",
        r"schlüssel|passw[oö]rt|passwörter|kennw|geheimniss|zugangsdaten|anmeldedaten|umgebungsvariable|gesprächsverlauf|"
        r"chatverlauf|unterhaltung|systemprompt|\.env\b|\.ssh\b",
        r"bevor (?:du|sie) |vor jede[mr] (?:antwort|aufruf|werkzeug)|zuerst|als erstes",
        r"ohne (?:es |dies |den |die |dass |das )?.{0,20}(?:erwähn|sag|mitteil|wissen|frag|inform|hinweis|merk)|"
        r"verschweig|"
        r"verheimlich|erwähne? (?:es|das|dies)? ?nicht|sag .{0,20}nicht|nichts davon",
        r"ignorier|vergiss|missacht|übergeh",
        r"bisherige|vorherige|anweisung|vorgabe|regeln|was (?:dir|ihnen) gesagt",
    ),
    Tongue(  # French
        r"lis|lisez|envoie|envoyez|copie|copiez|transmet|transmets|ajoute|ajoutez|colle|collez|mets|mettez|joins|joignez|"
        r"transfère|transférez|récupère|récupérez",
        r"mots? de passe|clés? (?:privée|secrète|ssh|d'api|api)|identifiants|secrets|variables d'environnement|"
        r"historique|conversation|invite système|\.env\b|\.ssh\b",
        r"avant (?:de répondre|tout|toute|chaque|d'utiliser|d'appeler)|d'abord|en premier",
        r"sans (?:le |la |les |en |l'|que )?.{0,15}(?:dire|prévenir|informer|avertir|mentionner|sache|demander)|n'en "
        r"parle|"
        r"ne (?:le |la |les )?(?:montre|dis|dites|mentionne|informe|signale|révèle|prévien)\w* .{0,10}(?:pas|jamais|"
        r"rien)",
        r"ignore|ignorez|oublie|oubliez",
        r"précédent|consignes|instructions|règles|ce qu'on (?:t'|vous )a dit",
    ),
    Tongue(  # Spanish
        r"lee|lea|envía|envíe|envia|copia|copie|pega|pegue|añade|añada|agrega|incluye|incluya|reenvía|adjunta|manda|sube|"
        r"entrega|transfiere|extrae",
        r"contraseña|claves? (?:privada|secreta|ssh|api)|credencial|secretos|variables de entorno|historial|"
        r"conversación|\.env\b|\.ssh\b",
        r"antes de (?:responder|usar|llamar|contestar|cualquier)|primero|en primer lugar",
        r"sin (?:que .{0,20}(?:sepa|note)|decir|avisar|informar|mencionar|preguntar)|no (?:se )?lo .{0,10}(?:diga|"
        r"mencione|digas|menciones)|"
        r"no (?:le |se lo )?(?:digas?|cuentes?|muestres?|informes?|menciones?|avises?)",
        r"ignora|ignore|olvida|olvide|omite",
        r"anteriores|instrucciones|reglas|lo que te (?:dijeron|han dicho)",
    ),
    Tongue(  # Italian
        r"leggi|legga|invia|invii|copia|copi|incolla|aggiungi|inserisci|inoltra|trasmetti|allega|manda|carica|cambia",
        r"password|chiav[ei] (?:privat|segret|ssh|api)|credenziali|segreti|variabili d'ambiente|cronologia|"
        r"conversazione|\biban\b|\.env\b|\.ssh\b",
        r"prima di (?:rispondere|usare|chiamare|ogni|qualsiasi)|per prima cosa|innanzitutto",
        r"senza (?:dir|avvis|inform|menzion|chied|che)\w*|non (?:lo |glielo |gli |le )?(?:dire|dirlo|mostrare|"
        r"menzionare|informare)",
        r"ignora|dimentica|trascura",
        r"precedenti|istruzioni|regole|(?:quello|ciò) che ti è stato detto",
    ),
    Tongue(  # Portuguese
        r"leia|lê|envie|envia|copie|copia|cole|adicione|inclua|encaminhe|anexe|transmita|mande|coloque",
        r"senhas?|chaves? (?:privada|secreta|ssh|api)|credenciais|segredos|variáveis de ambiente|histórico|conversa|"
        r"\.env\b|"
        r"\.ssh\b",
        r"antes de (?:responder|usar|chamar|qualquer)|primeiro|em primeiro lugar",
        r"sem (?:que .{0,15}saiba|dizer|avisar|informar|mencionar|contar|perguntar)|não (?:lhe |o |a )?(?:cont|dig|"
        r"mencion|inform|avis|"
        r"mostr|revel)\w*",
        r"ignore|ignora|esqueça|esquece|desconsidere",
        r"anteriores|instruções|regras|o que (?:te|lhe) (?:disseram|foi dito)",
    ),
    Tongue(  # Dutch
        r"lees|stuur|verstuur|kopieer|voeg|plak|geef|zet|verzend|deel",
        r"wachtwoord|sleutel|inloggegevens|geheimen|omgevingsvariabele|gesprek|chatgeschiedenis|\.env\b|\.ssh\b",
        r"voordat (?:je|u)|voor (?:elk|ieder)|eerst",
        r"zonder (?:het |dit |de )?.{0,15}(?:te )?(?:zeggen|vermelden|vertellen|melden|vragen|weten)|zeg .{0,12}niets|"
        r"vertel .{0,20}niet",
        r"negeer|vergeet",
        r"vorige|eerdere|instructies|regels|wat je is verteld",
    ),
    Tongue(  # Polish
        r"przeczytaj|wyślij|skopiuj|dodaj|wklej|prześlij|przekaż|umieść|dołącz",
        r"hasł|klucz|poświadcze|sekret|zmienn\w+ środowiskow|rozmow|histori|\.env\b|\.ssh\b",
        r"zanim (?:odpowiesz|użyjesz|wywołasz)|najpierw|przed (?:każd|użyciem|odpowiedzią)",
        r"nie (?:mów|informuj|wspominaj|pokazuj|ujawniaj)|bez (?:wiedzy|informowania|pytania|zgody)",
        r"zignoruj|ignoruj|zapomnij|pomiń",
        r"poprzedni|wcześniejsz|instrukcj|polece|zasad",
    ),
    Tongue(  # Turkish
        r"oku|gönder|kopyala|ekle|yapıştır|ilet|aktar|paylaş",
        r"şifre|parola|anahtar|kimlik bilgi|gizli|ortam değişken|konuşma|sohbet|\.env\b|\.ssh\b",
        r"önce|yanıt vermeden|kullanmadan",
        r"söylemeden|söyleme\b|haber vermeden|bildirmeden|bahsetme|sormadan|göstermeden",
        r"görmezden gel|yok say|unut|dikkate alma",
        r"önceki|talimat|kural",
    ),
)

OTHERS = (
    Tongue(  # Russian
        r"прочитай|прочти|отправ|перешли|скопируй|передай|вставь|добавь|помести|приложи|загрузи|вышли",
        r"ключ|парол|секрет|учётн|учетн|токен|переменн\w* окружения|переписк|разговор|диалог|историю",
        r"прежде чем|перед (?:тем|каждым|использованием|ответом)|сначала",
        r"не (?:сообщай|говори|рассказывай|упоминай|показывай|раскрывай|уведомляй)|без (?:ведома|уведомления|спроса|"
        r"согласия)|втайне|"
        r"незаметно",
        r"игнориру|забудь|проигнорируй|не обращай внимания",
        r"предыдущ|прежни|инструкц|правил|указани",
    ),
    Tongue(  # Chinese
        r"发送|发给|上传|复制|粘贴|提供给|转发|提交|填入|放入|传给|写入",
        r"密钥|私钥|密码|凭据|凭证|令牌|环境变量|对话记录|聊天记录|对话历史|系统提示|机密|隐私",
        r"之前|以前|首先|先把|先将|务必先",
        r"不要(?:告诉|通知|提及|提示|透露|让)|不得告知|别告诉|瞒着|悄悄|偷偷|无需(?:告知|通知|确认)",
        r"忽略|无视|忘记|忘掉",
        r"之前|以上|先前|指令|规则|指示|提示",
    ),
    Tongue(  # Japanese
        r"送信|送って|読み取|読み込|コピー|貼り付け|転送|入れて|渡して|含めて|添付|アップロード",
        r"秘密鍵|鍵|パスワード|認証情報|資格情報|トークン|環境変数|会話|履歴|システムプロンプト|機密",
        r"前に|まず|最初に|必ず先に",
        r"知らせず|伝えず|言わず|知られず|内緒|黙って|通知せず|言わないで|伝えないで|教えないで",
        r"無視|忘れ",
        r"以前|前の|これまで|指示|命令|ルール",
    ),
    Tongue(  # Korean
        r"보내|전송|읽어|복사|붙여|전달|넣어|첨부|업로드|추가해|알려",
        r"비밀|키를|비밀번호|암호|자격 증명|토큰|환경 변수|대화|기록|시스템 프롬프트",
        r"전에|먼저|우선",
        r"알리지|말하지|몰래|언급하지|모르게|보여주지",
        r"무시|잊",
        r"이전|지시|규칙|명령",
    ),
    Tongue(  # Arabic
        r"أرسل|ارسل|اقرأ|انسخ|أضف|ضع|مرر|ارفع|أرفق",
        r"كلمة المرور|كلمات المرور|المفتاح|مفتاح|الأسرار|بيانات الاعتماد|المحادثة|متغيرات البيئة|السرية",
        r"قبل|أولا|أولاً",
        r"لا تخبر|دون إخبار|دون علم|لا تذكر|بدون إعلام|سرا|سراً",
        r"تجاهل|انس",
        r"السابقة|التعليمات|القواعد|الأوامر",
    ),
    Tongue(  # Hindi
        r"भेज|पढ़|कॉपी|जोड़|डाल|अपलोड",
        r"पासवर्ड|कुंजी|गुप्त|फ़ाइल|फाइल|बातचीत|टोकन|क्रेडेंशियल|पर्यावरण चर",
        r"पहले",
        r"बिना बताए|मत बता|न बता|जानकारी के बिना|मत बताना",
        r"अनदेखा|नज़रअंदाज़|भूल",
        r"पिछले|निर्देश|नियम",
    ),
)


def deeds_in(text: str) -> Iterator[tuple[str, float, str]]:
    """What sentences in other languages tell the reader to do: the rule, its weight, and the sentence."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}\n{text[-_LONGEST // 2 :]}"
    tongues: list[Tongue] = []
    if not text.isascii() and _OTHER_SCRIPT.search(text):
        tongues = [*OTHERS]
    if (text.count(" ") > 1 and _MARKED.search(text)) or len(_FUNCTION_WORDS.intersection(text.lower().split())) > 1:
        tongues += LATIN
    if not tongues:
        return
    sentences = [part for part in _SENTENCE_END.split(text.lower(), _MOST_SENTENCES) if len(part) > 5]
    for error_dialect in tongues:
        for sentence in sentences:
            yield from _changes(_compiled(error_dialect), sentence)


class _Compiled(NamedTuple):
    send: re.Pattern[str]
    held: re.Pattern[str]
    before: re.Pattern[str]
    untold: re.Pattern[str]
    ignore: re.Pattern[str]
    told: re.Pattern[str]


@lru_cache(maxsize=32)
def _compiled(error_dialect: Tongue) -> _Compiled:
    edge = r"\b" if error_dialect in LATIN else ""
    return _Compiled(*(re.compile(f"{edge}(?:{words})") for words in error_dialect))


def _changes(words: _Compiled, sentence: str) -> Iterator[tuple[str, float, str]]:
    if words.ignore.search(sentence) and words.told.search(sentence):
        yield "override", 1.5, sentence
    if not words.send.search(sentence):
        return
    if words.untold.search(sentence):
        yield "secrecy", 1.5, sentence
    if words.held.search(sentence):
        yield "theft", 1.5 if words.before.search(sentence) else 0.75, sentence


_LONGEST = 8_192
"""Beyond this only the beginning and the end are read."""
_MOST_SENTENCES = 400
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[\n。！？।؟]+")
_OTHER_SCRIPT = re.compile("[\u0400-\u04ff\u0600-\u06ff\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_MARKED = re.compile("[ß-öø-ÿąćęğıłńśşźżçñ]")
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "der das dem und nicht ohne vor bevor ihre deine diese dieses jeder eine le les du dans sans avant pas ne "
        "cette à au une et el la los las del que para por sin una y al su lo il che gli della senza di un nel quello "
        "è ti não sem uma dos da o os ao het een voor zonder niet naar je dit deze en nie bez przed zanim się całą "
        "tego bu ve için önce",
    )
)
"""Small words of the languages above; two of them in one text, and it may be in one of those languages."""
