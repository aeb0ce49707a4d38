"""Categories of tools: derived from their words where a server declares none, and compared as paths.

A category is a path such as `filesystem` or `web/search`. A filter for a path covers all paths below it.
"""

from __future__ import annotations

from collections.abc import Iterable

from interlock.discovery import words

MAX_CATEGORIES = 16
MAX_LENGTH = 80


def normal(category: str) -> str:
    """The normal form of a category: lower case, with `/` between steps and `-` between words."""
    steps = (
        "-".join(words.split(step, wholes=False)) for step in category[: MAX_LENGTH * 2].replace(".", "/").split("/")
    )
    return "/".join(step for step in steps if step)[:MAX_LENGTH]


def covers(wider: str, category: str) -> bool:
    """Whether a category equals the wider one or is below it."""
    return category == wider or category.startswith(wider + "/")


def of_tool(declared: Iterable[str], name: str, description: str) -> tuple[str, ...]:
    """The declared categories, or those that name and description suggest. There are only a few."""
    own = tuple(dict.fromkeys(found for found in map(normal, declared) if found))[:MAX_CATEGORIES]
    return own or derive(name, description)


def derive(name: str, description: str) -> tuple[str, ...]:
    """Up to two subjects, then the kind of action, from the first verb of the name."""
    in_name = words.split(name)
    stems = [words.stem(word) for word in in_name]
    weight: dict[str, int] = {}
    for found, points in ((stems, 3), (words.terms(description)[:40], 1)):
        for term in set(found):
            for subject in _SUBJECTS_BY_TERM.get(term, ()):
                weight[subject] = weight.get(subject, 0) + points
    subjects = sorted((s for s in weight if weight[s] >= 2), key=lambda s: (-weight[s], s))[:2]
    action = next((_ACTION_BY_VERB[term] for term in stems if term in _ACTION_BY_VERB), None)
    return (*subjects, action) if action else tuple(subjects)


def _by_word(table: dict[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for label, line in table.items():
        for word in line.split():
            found.setdefault(words.stem(word), []).append(label)
    return {term: tuple(labels) for term, labels in found.items()}


_SUBJECTS_BY_TERM = _by_word(
    {
        "filesystem": "file files folder directory path disk filesystem",
        "database": "database sql table query row column schema postgres mysql sqlite mongodb redis",
        "code": "code repository repo git github gitlab commit branch pull merge issue compile lint program script",
        "web": "web website url http page browser crawl scrape html internet",
        "search": "search lookup find query engine",
        "communication": "email mail message chat sms slack channel notify notification inbox contact",
        "calendar": "calendar event meeting schedule appointment reminder agenda availability",
        "documents": "document pdf spreadsheet sheet slide presentation note wiki page word excel",
        "media": "image photo picture video audio music song movie podcast speech voice",
        "finance": "price payment invoice stock currency bank tax loan budget crypto money finance financial trading",
        "shopping": "shop product cart order purchase store discount coupon checkout",
        "travel": "travel flight hotel trip booking airport train itinerary restaurant",
        "maps": "map location address route direction distance geocode latitude longitude place",
        "weather": "weather forecast temperature climate rain wind",
        "health": "health medical patient drug medication disease diet fitness nutrition exercise",
        "education": "course student school learn lesson exam quiz teacher university",
        "science": "chemical molecule gene protein physics planet species research experiment",
        "math": "math equation matrix statistic probability calculate derivative integral geometry triangle average",
        "data-analysis": "analysis analyze chart plot dataset csv metric report dashboard statistic",
        "ai": "model prompt embedding inference llm generate chatbot",
        "system": "process server container deploy docker kubernetes cpu memory log shell command terminal",
        "cloud": "cloud aws azure bucket lambda instance cluster storage",
        "security": "password encrypt secret token permission vulnerability scan certificate login auth",
        "customer-relations": "customer lead deal ticket crm sale support campaign",
        "project-management": "project task sprint milestone board backlog todo",
        "news": "news headline article journalist",
        "games": "game player score chess dice",
        "legal": "law legal contract regulation court patent",
        "home": "device light thermostat sensor lamp lock",
    }
)

_ACTION_BY_VERB = {
    term: labels[0]
    for term, labels in _by_word(
        {
            "read": "read get list fetch show view find search lookup retrieve describe check query count download",
            "write": "write create add update edit set save insert put modify append upload rename move copy merge",
            "delete": "delete remove drop clear purge erase",
            "send": "send post publish notify reply share email",
            "execute": "run execute start stop restart deploy launch invoke call trigger cancel",
            "compute": "calculate compute convert compare analyze estimate translate summarize predict validate",
        }
    ).items()
}
