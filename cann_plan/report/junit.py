"""A check document as JUnit XML, which every CI system shows as test results."""

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from cann_plan.report import numbers


def junit(document: Mapping[str, Any]) -> str:
    """One test suite per plan, one test case per limit; an unreadable plan is one case with an error."""
    root = ElementTree.Element("testsuites", name="cann-plan check")
    for plan in document["plans"]:
        limits, errors = plan["limits"], plan.get("errors", [])
        failures = sum(not result["pass"] for result in limits)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=plan["file"],
            tests=str(len(limits) + bool(errors)),
            failures=str(failures),
            errors=str(int(bool(errors))),
        )
        for result in limits:
            case = ElementTree.SubElement(suite, "testcase", classname=plan["file"], name=result["name"])
            if not result["pass"]:
                message = f"{_number(result['value'])} against {_number(result['limit'])} {result.get('unit') or ''}"
                ElementTree.SubElement(case, "failure", message=message.strip()).text = result.get("reason") or ""
        if errors:
            case = ElementTree.SubElement(suite, "testcase", classname=plan["file"], name="readable")
            messages = "\n".join(f"{item['path'] or ''}: {item['message']}".lstrip(": ") for item in errors)
            ElementTree.SubElement(case, "error", message=errors[0]["message"]).text = messages
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _number(value: object) -> str:
    return numbers.plain(float(value)) if isinstance(value, int | float) else numbers.value_text(value)
