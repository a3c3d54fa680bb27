"""Small SVG pictures."""

from __future__ import annotations

from html import escape

from kafkaguard._common.text import plain


def element(tag: str, *content: str, **attributes: object) -> str:
    """Make an element; ``_`` in an attribute's name becomes ``-``, ``css`` ``class``.

    Args:
        tag: The element's name.
        content: Its content: elements, or text that is already escaped.
        attributes: Its attributes; numbers are rounded to a tenth.
    """
    given = "".join(map(_attribute, attributes, attributes.values()))
    return f"<{tag}{given}>{''.join(content)}</{tag}>"


def text(x: float, y: float, words: str, **attributes: object) -> str:
    """Make a text that begins at a point, or ends there with ``text_anchor``.

    Characters that XML does not allow, such as escape sequences, are written out.
    """
    return element("text", escape(plain(words)), x=x, y=y, **attributes)


def picture(width: int, height: int, *elements: str) -> str:
    """Make a document with a white background and these elements."""
    ground = element("rect", width="100%", height="100%", fill="white")
    return drawing(width, height, ground, *elements)


def drawing(width: int, height: int, *elements: str, **attributes: object) -> str:
    """Make a document of these elements, without a background.

    Args:
        width: Its width in pixels.
        height: Its height in pixels.
        elements: Its elements.
        attributes: More attributes of the document; ``css`` are its style classes.
    """
    document = element(
        "svg",
        *(f"\n{each}" for each in elements),
        "\n",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        font_family="sans-serif",
        font_size=12,
        **attributes,
    )
    return f"{document}\n"


def _attribute(name: str, value: object) -> str:
    shown = f"{value:.1f}" if isinstance(value, float) else str(value)
    written = "class" if name == "css" else name.replace("_", "-")
    return f' {written}="{escape(shown)}"'
