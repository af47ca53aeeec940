"""Puts the media (images and clips) of records into the folders of the two parts of a divided input.

The two parts are the questions to train on, and the questions to evaluate on. Each folder thus holds all files that its
questions need. The input may come from a stranger, who can choose the paths of media and the files at these paths. So a
path such as ``../x`` is ignored, and a file is never written through a link.
"""

import os
import shutil
from pathlib import Path, PurePosixPath

from groundtrace.pipelines.loop.held_out import SplitError
from groundtrace.schemas.safe_files import refuse_links
from groundtrace.storage.places import is_in_store
from groundtrace.vision.media import MediaMissing, MediaNotAllowed, MediaStore

EMBEDDED = "media"
"""The name of the folder, in the folder of each part, for embedded media: those that the input's rows contain as bytes.

The URIs of these media, ``run:media/…``, contain the same name.
"""


class PartMedia:
    """Puts the media (images and clips) of records into the folders of the two parts of a divided input.

    ``store`` opens the media of the input. ``folder`` is the folder into which the store has written the embedded
    media, i.e. the media that the input's rows contain as bytes.
    """

    def __init__(self, store: MediaStore, folder: Path) -> None:
        self._store, self._folder = store, folder
        self.local = set[str]()
        """The paths, in the input's folder, of the local media that a part has as links or copies."""

    def put(self, uri: str, side: Path) -> None:
        """Put a medium (image or clip) into the folder ``side`` of a part, under its path in the input.

        A missing file is left out. ``uri`` is the URI of the medium.

        If the medium is a link to a file outside the input's folder, a run rejects each question with this medium. So
        the part gets a link to the same file, and a run that reads the part rejects the question, too. A link to a
        folder outside the input's folder is left out: if the part had this link, media with paths below the link would
        be written through it.

        Raises SplitError if the medium has the path of the folder in which embedded media are stored. Raises UnsafeFile
        if the medium would be written through a link.
        """
        scheme, _, relative = uri.partition(":")
        parts = PurePosixPath(relative).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in relative or len(relative) > 4096:
            return
        target = side / relative
        try:
            self._store.kind_of(uri)
        except MediaMissing:
            return
        except MediaNotAllowed:
            self._keep_link(relative, side)
            return
        if target == side / EMBEDDED:
            raise SplitError(
                f"the media file {relative!r} of the input has the same name as the folder in which `beam loop` stores "
                "embedded media: rename the file"
            )
        if os.path.lexists(target):
            return
        refuse_links(side, relative)
        target.parent.mkdir(parents=True, exist_ok=True)
        if scheme == "input" and is_in_store(self._store.input_root):
            target.write_bytes(self._store.open_bytes(uri))
            return
        source = (self._folder if scheme == "run" else Path(self._store.input_root)) / relative
        if scheme == "input":
            self.local.add(relative)
        _link(source.resolve(), target)

    def _keep_link(self, relative: str, side: Path) -> None:
        """Make a link in the folder ``side`` if an image or clip is a link to a file outside the input's folder.

        ``relative`` is the path of the image or clip in the input, and ``side`` is the folder of one part of the input.
        The new link has the same path in ``side``, and leads to the same file. Any other link, e.g. a link to a folder,
        is left out. A link with the path of the folder for embedded media is left out, too.
        """
        target = side / relative
        if is_in_store(self._store.input_root) or os.path.lexists(target) or target == side / EMBEDDED:
            return
        source = Path(self._store.input_root) / relative
        try:
            is_wanted = source.is_symlink() and source.is_file()
        except PermissionError:  # the link leads into a folder that this user may not read
            return
        if is_wanted:
            refuse_links(side, relative)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source.resolve())


def _link(source: Path, target: Path) -> None:
    """Link or copy a file. Raises OSError if neither is possible."""
    try:
        os.link(source, target)
    except OSError:  # another disk, or a file system without links
        shutil.copyfile(source, target)
