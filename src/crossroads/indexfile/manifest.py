"""Which index file of a folder is the current one.

`MANIFEST.json` names it and is replaced by renaming, so a reader finds the old file or the new one,
both whole. Old files stay until they are pruned, because processes may still be about to open them.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from crossroads.errors import IndexFileError
from crossroads.indexfile.layout import sync_folder

MANIFEST = "MANIFEST.json"
SUFFIX = ".xroads"  # what `prune` may delete: nothing else in the folder is ours
KEEP_DEFAULT = 2  # the current file, and the one before it for whoever read the manifest just now
PUBLISHED_MAX = 100  # names the manifest remembers; long gone ones are of no use


def publish(folder: str | Path, file: str | Path) -> None:
    """Make an index file of the folder the current one."""
    folder, name = Path(folder), Path(file).name
    if not name.endswith(SUFFIX):
        raise IndexFileError(f"an index file of a folder must end in {SUFFIX}: {name}")
    if not (folder / name).is_file():
        raise IndexFileError(f"there is no {name} in {folder} to publish")
    earlier = [one for one in published(folder) if one != name]
    text = json.dumps({"current": name, "published": [*earlier, name][-PUBLISHED_MAX:]}, indent=2)
    temporary = folder / f".{MANIFEST}.{os.getpid()}.part"
    try:
        with temporary.open("w") as out:
            out.write(text + "\n")
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(folder / MANIFEST)
        sync_folder(folder)
    except OSError as error:
        raise IndexFileError(f"cannot publish in {folder}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # after the rename there is nothing left to remove
            temporary.unlink()


def current(folder: str | Path) -> Path | None:
    """The current index file; None if nothing was published here yet."""
    names = published(folder)
    return Path(folder) / names[-1] if names else None


def published(folder: str | Path) -> list[str]:
    """Names of published files, the current one last."""
    manifest = Path(folder) / MANIFEST
    try:
        found = json.loads(manifest.read_text())
        names = [str(name) for name in found["published"]]
        sound = names[-1] == found["current"] and all(Path(n).name == n for n in names)
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise IndexFileError(
            f"{manifest} cannot be read", hint="delete it and publish again"
        ) from error
    if not sound:
        raise IndexFileError(f"{manifest} contradicts itself", hint="delete it and publish again")
    return names


def prune(folder: str | Path, *, keep: int = KEEP_DEFAULT) -> list[Path]:
    """Delete published files but the last `keep` ones; returns what was deleted.

    Files never published are left alone: someone may be writing them right now.
    """
    assert keep >= 1, "the current file stays"
    deleted = []
    for name in published(folder)[:-keep]:
        path = Path(folder) / name
        if path.is_file() and name.endswith(SUFFIX):
            path.unlink()
            deleted.append(path)
    return deleted
