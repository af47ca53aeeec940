"""What a call shows: images in the order in which the code shows them, as RGB pixels.

A model shows an image by ``plt.show()``, ``Image.show()``, ``cv2.imshow``, ``display(…)``, as the value of the last
line, or by saving it as a file. An image that was shown already in the call is not shown again.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from typing import Any

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")
FIGURE_DPI = 150
MAX_SAVED = 64
"""Files that are opened after a call, the latest ones."""
MIN_ARRAY_PX = 2
"""A smaller array is numbers rather than an image."""
_BACKEND = "module://inside.backend"


class Shown:
    """The images of one call: those larger than ``max_pixels`` are reduced, those after ``max_images`` only counted."""

    def __init__(self, max_images: int, max_pixels: int) -> None:
        self.max_images, self.max_pixels = max_images, max_pixels
        self.images: list[tuple[int, int, bytes]] = []
        self.left_out = 0

    def add(self, shown: Any) -> bool:
        """Add a PIL image, an array or a figure; returns whether it is one."""
        image = _as_pil(shown)
        if image is None:
            return False
        if len(self.images) >= self.max_images:
            self.left_out += 1
            return True
        image = _readable(image)
        share = (self.max_pixels / max(1, image.width * image.height)) ** 0.5
        if share < 1:
            image = image.resize((max(1, int(image.width * share)), max(1, int(image.height * share))))
        found = (image.height, image.width, image.tobytes())
        if found not in self.images and image.width and image.height:
            self.images.append(found)
        return True


def _readable(image: Any) -> Any:
    """As RGB: transparent parts are white, and 16-bit levels become 8-bit ones."""
    from PIL import Image

    if image.mode.startswith("I") or image.mode == "F":
        low, high = image.getextrema()
        return image.point(lambda level: (level - low) * 255 / max(high - low, 1e-9)).convert("L").convert("RGB")
    if "A" in image.mode or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _as_pil(shown: Any) -> Any:
    """The thing as a PIL image, None where it is no image."""
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
    """The figures that pyplot holds open."""
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        yield from (pyplot.figure(number) for number in pyplot.get_fignums())


def show_figures(shown: Shown) -> None:
    """What ``plt.show()`` does: show the open figures and close them."""
    for figure in list(open_figures()):
        shown.add(figure)
        sys.modules["matplotlib.pyplot"].close(figure)


def files_at(folder: str) -> dict[str, tuple[int, int, int]]:
    """The image files below a folder, each with what changes when it is written."""
    found = {}
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if name.lower().endswith(SUFFIXES) and not os.path.islink(path):
                status = os.stat(path)
                found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def add_saved(shown: Shown, before: dict[str, tuple[int, int, int]], folder: str) -> None:
    """Add the image files that were written since ``before``, in the order of writing, but for unreadable ones."""
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
    """Lets ``cv2.imshow`` show its image as soon as cv2 is imported: there are no windows here."""

    def __init__(self, show: Any) -> None:
        self._show, self._looking = show, False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The spec of cv2, whose functions for windows are replaced once it is loaded."""
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
    """``imshow`` shows its image, and what handles windows does nothing."""

    def imshow(_: Any, image: Any) -> None:
        show(image[..., 2::-1] if getattr(image, "ndim", 0) == 3 and image.shape[2] >= 3 else image)

    cv2.imshow = imshow
    cv2.waitKey = lambda *_: -1
    cv2.namedWindow = cv2.destroyWindow = cv2.destroyAllWindows = lambda *_: None
