"""Collects the images that a call (an execution of code) shows, in the order in which the code shows them.

The images are stored as RGB pixels. Model-written code shows an image by ``plt.show()``, ``Image.show()``,
``cv2.imshow``, ``display(…)``, as the value of its last line, or by saving it as a file. An image that the call has
shown before is not added again.
"""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from typing import Any

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")
FIGURE_DPI = 150
MAX_SAVED = 64
"""The largest number of saved image files that are opened after a call. The latest files are opened."""
MIN_ARRAY_PX = 2
"""An array with a side shorter than this is treated as numbers, and not as an image."""
_BACKEND = "module://inside.backend"


class Shown:
    """Collects the images that one call (an execution of code) shows.

    An image of more than ``max_pixels`` pixels is scaled down. At most ``max_images`` images are kept. ``images`` holds
    the height, the width and the RGB pixels of each image, and ``left_out`` is the number of images beyond the limit.
    """

    def __init__(self, max_images: int, max_pixels: int) -> None:
        self.max_images, self.max_pixels = max_images, max_pixels
        self.images: list[tuple[int, int, bytes]] = []
        self.left_out = 0

    def add(self, shown: Any) -> bool:
        """Add ``shown`` to the images of the call (an execution of code); return whether ``shown`` is an image.

        An image is a PIL image, an array of pixels, a matplotlib figure, or a part of a figure, such as its axes. For a
        part, the whole figure is added. An image beyond the limit on images is only counted. An image that the call has
        shown before is ignored.
        """
        image = _as_pil(shown)
        if image is None:
            return False
        image = _readable(image)
        share = (self.max_pixels / max(1, image.width * image.height)) ** 0.5
        if share < 1:
            image = image.resize((max(1, int(image.width * share)), max(1, int(image.height * share))))
        found = (image.height, image.width, image.tobytes())
        if found in self.images or not (image.width and image.height):
            return True
        if len(self.images) < self.max_images:
            self.images.append(found)
        else:
            self.left_out += 1
        return True


def _readable(image: Any) -> Any:
    """Return the image as RGB: transparent parts become white, and levels of more than 8 bits are scaled to 8 bits."""
    from PIL import Image

    if image.mode.startswith("I") or image.mode == "F":
        low, high = image.getextrema()
        return image.point(lambda level: (level - low) * 255 / max(high - low, 1e-9)).convert("L").convert("RGB")
    if "A" in image.mode or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _as_pil(shown: Any) -> Any:
    """Return ``shown``, a Python object that the code shows, as a PIL image; None if it is not an image."""
    from PIL import Image

    if isinstance(shown, Image.Image):
        return shown
    if "matplotlib.figure" in sys.modules and isinstance(shown, sys.modules["matplotlib.figure"].Figure):
        return _drawn(shown)
    figure = getattr(shown, "figure", None)
    if "matplotlib.artist" in sys.modules and isinstance(shown, sys.modules["matplotlib.artist"].Artist):
        return None if figure is None else _drawn(figure)
    return _of_array(shown) if "numpy" in sys.modules and isinstance(shown, sys.modules["numpy"].ndarray) else None


def _of_array(array: Any) -> Any:
    from PIL import Image

    np = sys.modules["numpy"]
    is_flat = array.ndim == 2 and array.dtype in (np.uint8, np.bool_)
    if not (is_flat or (array.ndim == 3 and array.shape[2] in (1, 3, 4) and array.dtype == np.uint8)):
        return None
    if min(array.shape[:2]) < MIN_ARRAY_PX:
        return None
    levels = np.ascontiguousarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array)
    return Image.fromarray(levels * np.uint8(255) if levels.dtype == np.bool_ else levels)


def _drawn(figure: Any) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    before = figure.canvas
    canvas = FigureCanvasAgg(figure)
    dpi = figure.dpi
    try:
        figure.dpi = FIGURE_DPI
        canvas.draw()
        return Image.fromarray(sys.modules["numpy"].asarray(canvas.buffer_rgba()).copy())
    finally:
        figure.dpi = dpi
        figure.set_canvas(before)


def open_figures() -> Iterator[Any]:
    """Yield the open figures of matplotlib's pyplot. If the code has not loaded pyplot, no figure is yielded."""
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        yield from (pyplot.figure(number) for number in pyplot.get_fignums())


def show_figures(shown: Shown) -> None:
    """Add pyplot's open figures to the images that the running code shows, and close the figures.

    ``plt.show()`` in the sandbox does the same. ``shown`` collects the images of this execution of code.
    """
    for figure in list(open_figures()):
        shown.add(figure)
        sys.modules["matplotlib.pyplot"].close(figure)


def files_at(folder: str) -> dict[str, tuple[int, int, int]]:
    """Return the state of all image files below a folder, to find out later which of them were written.

    The result is a dict from the path to the time of the last change (in ns), the size (in bytes) and the inode. A
    write to a file changes at least one of these three values.
    """
    found = {}
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if name.lower().endswith(SUFFIXES) and not os.path.islink(path):
                with contextlib.suppress(OSError):  # its folder can be listed but not entered
                    status = os.stat(path)
                    found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def add_saved(shown: Shown, before: dict[str, tuple[int, int, int]], folder: str) -> None:
    """Add image files to the images that a call (an execution of code) shows: the files that the call has written.

    The files are added in the order of writing. ``shown`` collects the images of the call. ``before`` holds the state
    of each image file before the call, by path (:func:`files_at`). A file below ``folder`` was written if its state
    differs from ``before``. Only the :data:`MAX_SAVED` files that were written most recently are read. Unreadable files
    are skipped.
    """
    from PIL import Image

    written = sorted((state, path) for path, state in files_at(folder).items() if before.get(path) != state)
    for _, path in written[-MAX_SAVED:]:
        try:
            with Image.open(path) as image:
                image.load()
                shown.add(image)
        except Exception:
            continue


class ShowInsteadOfWindows(MetaPathFinder):
    """Makes ``cv2.imshow`` add its image to the images that the running code shows, since the sandbox has no windows.

    The class is an import hook: it changes the module cv2 (OpenCV) when the code imports it. ``show`` is the function
    that gets each image.
    """

    def __init__(self, show: Any) -> None:
        self._show, self._looking = show, False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return an import spec with which Python loads cv2 (OpenCV), and then replaces the window functions of cv2.

        The import system of Python calls this method. For all other modules, the result is None.
        """
        if fullname != "cv2" or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            replace_windows(sys.modules.get("cv2", module), self._show)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def replace_windows(cv2: Any, show: Any) -> None:
    """Replace the window functions of cv2 (OpenCV), since the sandbox has no windows.

    ``imshow`` now passes its image to the function ``show``, with the colours as RGB. The other window functions do
    nothing.
    """

    def imshow(_: Any, image: Any) -> None:
        show(image[..., 2::-1] if getattr(image, "ndim", 0) == 3 and image.shape[2] >= 3 else image)

    cv2.imshow = imshow
    cv2.waitKey = lambda *_: -1
    cv2.namedWindow = cv2.destroyWindow = cv2.destroyAllWindows = lambda *_: None
