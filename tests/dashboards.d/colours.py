"""The colours of the dashboards: told apart by deuteranopes and protanopes, readable in both themes, never alone.

Difference is CIEDE2000 (Sharma, Wu, Dalal 2005) after a simulation of the deficiency by Machado, Oliveira, Fernandes
2009 with severity 1.0. Contrast is that of WCAG 2.1. A panel without a colour counts as the colour of its background.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import boards

Finding = tuple[str, str, str]  # rule, panel, what is wrong
Triple = tuple[float, float, float]
MIN_DIFFERENCE, MIN_CONTRAST = 20, 4.5

# Grafana 12.2: packages/grafana-data/src/themes/createVisualizationColors.ts and createColors.ts, (dark, light) by shade.
SHADES = ("super-light-{}", "light-{}", "{}", "semi-dark-{}", "dark-{}")
HUES = {
    "red": ("FFA6B0 FF7383 F2495C E02F44 C4162A", "FF7383 F2495C E02F44 C4162A AD0317"),
    "orange": ("FFCB7D FFB357 FF9830 FF780A FA6400", "FFB357 FF9830 FF780A FA6400 E55400"),
    "yellow": ("FFF899 FFEE52 FADE2A F2CC0C E0B400", "FFEE52 FADE2A F2CC0C E0B400 CC9D00"),
    "green": ("C8F2C2 96D98D 73BF69 56A64B 37872D", "96D98D 73BF69 56A64B 37872D 19730E"),
    "blue": ("C0D8FF 8AB8FF 5794F2 3274D9 1F60C4", "8AB8FF 5794F2 3274D9 1F60C4 1250B0"),
    "purple": ("DEB6F2 CA95E5 B877D9 A352CC 8F3BB8", "CA95E5 B877D9 A352CC 8F3BB8 7C2EA3"),
}
BACKGROUND = {"dark": "181B1F", "light": "FFFFFF"}
TEXT = {"dark": "CCCCDC", "light": "24292E"}
PALETTE: dict[str, dict[str, str]] = {
    theme: {
        "transparent": BACKGROUND[theme],
        "text": TEXT[theme],
        **{
            shade.format(hue): value
            for hue, of_theme in HUES.items()
            for shade, value in zip(SHADES, of_theme[i].split(), strict=True)
        },
    }
    for i, theme in enumerate(("dark", "light"))
}
# Linear RGB to linear RGB.
VISION: dict[str, tuple[Triple, Triple, Triple]] = {
    "everybody": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopes": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopes": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
# Pairs of CIELAB colours and their difference, from the data that Sharma, Wu and Dalal published.
PUBLISHED: tuple[tuple[Triple, Triple, float], ...] = (
    ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
    ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0009), 7.1792),
    ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
    ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
    ((90.8027, -2.0831, 1.4410), (91.1528, -1.6435, 0.0447), 1.4441),
    ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
)


def _bytes(colour: str) -> Triple:
    return int(colour[:2], 16), int(colour[2:4], 16), int(colour[4:], 16)


def _linear(colour: str) -> Triple:
    red, green, blue = (
        (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4) for v in (b / 255 for b in _bytes(colour))
    )
    return red, green, blue


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), _linear(colour), strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def text_on(colour: str) -> str:
    """The colour in which Grafana writes on this background: getTextColorForAlphaBackground."""
    red, green, blue = _bytes(colour)
    return "202226" if (red * 299 + green * 587 + blue * 114) / 1000 > 180 else "F7F8FA"


def text_on_bar(colour: str) -> str:
    """The colour in which Grafana writes on a bar of a state timeline: getContrastText with a threshold of 3."""
    return "FFFFFF" if contrast("FFFFFF", colour) >= 3 else "000000"


def lab(colour: str, vision: str) -> Triple:
    """CIELAB, for D65."""
    seen = _linear(colour)
    red, green, blue = (
        min(1.0, max(0.0, sum(m * part for m, part in zip(row, seen, strict=True)))) for row in VISION[vision]
    )
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883
    x, y, z = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(one: Triple, other: Triple) -> float:
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    grey = 0.5 * (1 - math.sqrt(mean**7 / (mean**7 + 25**7)))
    a1, a2 = a1 * (1 + grey), a2 * (1 + grey)
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = math.degrees(math.atan2(b1, a1)) % 360, math.degrees(math.atan2(b2, a2)) % 360
    is_grey = c1 * c2 == 0
    hue = 0.0 if is_grey else (h2 - h1 + 180) % 360 - 180
    d_hue = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(hue / 2))
    l_mean, c_mean = (l1 + l2) / 2, (c1 + c2) / 2
    h_mean = h1 + h2 if is_grey else (h1 + hue / 2) % 360
    t = (
        1
        - 0.17 * math.cos(math.radians(h_mean - 30))
        + 0.24 * math.cos(math.radians(2 * h_mean))
        + 0.32 * math.cos(math.radians(3 * h_mean + 6))
        - 0.20 * math.cos(math.radians(4 * h_mean - 63))
    )
    s_l = 1 + 0.015 * (l_mean - 50) ** 2 / math.sqrt(20 + (l_mean - 50) ** 2)
    s_c, s_h = 1 + 0.045 * c_mean, 1 + 0.015 * c_mean * t
    turn = 60 * math.exp(-(((h_mean - 275) / 25) ** 2))
    r_t = -2 * math.sqrt(c_mean**7 / (c_mean**7 + 25**7)) * math.sin(math.radians(turn))
    light, chroma, shade = (l2 - l1) / s_l, (c2 - c1) / s_c, d_hue / s_h
    return math.sqrt(light**2 + chroma**2 + shade**2 + r_t * chroma * shade)


def difference(one: str, other: str) -> tuple[float, str, str]:
    """The least difference of two names of the palette, with the theme and who sees it."""
    return min(
        (ciede2000(lab(colours[one], vision), lab(colours[other], vision)), theme, vision)
        for theme, colours in PALETTE.items()
        for vision in VISION
    )


def _colours(field: dict[str, Any]) -> set[str]:
    """The colours of a field's configuration."""
    found = {step["color"] for step in field.get("thresholds", {}).get("steps", [])}
    if field.get("color", {}).get("mode") == "fixed":
        found.add(field["color"]["fixedColor"])
    for mapping in field.get("mappings", []):
        options = mapping["options"]
        results = [options["result"]] if "result" in options else list(options.values())
        found |= {result["color"] for result in results if "color" in result}
    return found


def _fields(panel: dict[str, Any]) -> list[dict[str, Any]]:
    """The configuration of all fields, and that of each override."""
    config = panel["fieldConfig"]
    return [config["defaults"], *({p["id"]: p["value"] for p in each["properties"]} for each in config["overrides"])]


def _roles(panel: dict[str, Any]) -> dict[str, list[set[str]]]:
    """The sets of colours that are seen together, by what they colour: a background with text on it, a text, a shape."""
    kind, options, fields = panel["type"], panel.get("options", {}), _fields(panel)
    if kind == "table":
        of_cells: dict[str, list[set[str]]] = {"color-background": [], "color-text": []}
        for field in fields:
            cell = field.get("custom.cellOptions", {}).get("type", "auto")
            of_cells.setdefault(cell, []).append(_colours(field))
        return {"background": of_cells["color-background"], "text": of_cells["color-text"], "shape": []}
    every = set().union(*(_colours(field) for field in fields))
    if kind == "stat":
        role = {"none": "", "background_solid": "background", "value": "text"}.get(options["colorMode"], "gradient")
        return {role: [every]}
    if kind == "state-timeline" and options["showValue"] != "never":
        return {"bar": [every], "shape": [every]}
    if kind == "bargauge" and options["valueMode"] == "color":
        return {"text": [every], "shape": [every]}
    return {"shape": [every]}


def findings(board: dict[str, Any]) -> Iterator[Finding]:
    for panel in boards.panels(board):
        if panel["type"] != "row":
            for what in _of_panel(panel):
                yield "colours", panel["title"], what


def _of_panel(panel: dict[str, Any]) -> Iterator[str]:
    roles = _roles(panel)
    every = set().union(*(colours for sets in roles.values() for colours in sets))
    if unknown := sorted(every - set(PALETTE["dark"])):
        yield f"{', '.join(unknown)} is not in Grafana's palette, or has no light variant"
        return
    if "gradient" in roles:
        yield "has a gradient as background; its contrast is not checked"
    for theme, colours in PALETTE.items():
        for role, of_text in (("background", text_on), ("bar", text_on_bar)):
            for name in sorted(set().union(*roles.get(role, [])) - {"transparent"}):
                ratio = contrast(colours[name], of_text(colours[name]))
                if ratio < MIN_CONTRAST:
                    yield f"text on {name} has a contrast of {ratio:.1f} in the {theme} theme"
        for name in sorted(set().union(*roles.get("text", []))):
            ratio = contrast(colours[name], BACKGROUND[theme])
            if ratio < MIN_CONTRAST:
                yield f"text in {name} has a contrast of {ratio:.1f} in the {theme} theme"
    for sets in roles.values():
        for together in sets:
            for one, other in combinations(sorted(together), 2):
                least, theme, vision = difference(one, other)
                if least < MIN_DIFFERENCE:
                    yield f"{one} and {other} differ by {least:.0f} for {vision} in the {theme} theme"
    for name in sorted(set().union(*roles.get("shape", []))):
        least, theme, vision = difference(name, "transparent")
        if least < MIN_DIFFERENCE:
            yield f"a shape in {name} differs from the background by {least:.0f} for {vision} in the {theme} theme"
    if panel["type"] == "state-timeline" and panel["fieldConfig"]["defaults"]["custom"].get("fillOpacity") != 100:
        yield "the bars are not opaque; the contrast of their text is not checked"
    yield from _alone(panel)


def _alone(panel: dict[str, Any]) -> Iterator[str]:
    """What colour says must be written as well, and no colour may be Grafana's default by value, green and red."""
    options, defaults = panel.get("options", {}), panel["fieldConfig"]["defaults"]
    if panel["type"] in ("stat", "bargauge", "gauge") and not ("color" in defaults or "thresholds" in defaults):
        yield "has neither a fixed colour nor thresholds, so Grafana's are used"
    if options.get("textMode") == "none" or options.get("valueMode") == "hidden":
        yield "shows no text"
    legend = options.get("legend", {}).get("showLegend", True)
    if panel["type"] in ("timeseries", "piechart", "state-timeline") and not legend:
        yield "has no legend"
    for field in _fields(panel):
        for mapping in field.get("mappings", []):
            results = [mapping["options"]["result"]] if "result" in mapping["options"] else mapping["options"].values()
            if any("color" in result and not result.get("text") for result in results):
                yield "a mapping has a colour and no text"


def wrong_formula() -> list[str]:
    """The formula against published differences, and the contrast of black and white."""
    wrong = [
        f"CIEDE2000 of {one} and {other} is {ciede2000(one, other):.4f} instead of {known}"
        for one, other, known in PUBLISHED
        if abs(ciede2000(one, other) - known) > 0.0001
    ]
    if abs(contrast("000000", "FFFFFF") - 21) > 0.001:
        wrong.append("the contrast of black and white is not 21")
    return wrong
