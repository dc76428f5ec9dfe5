"""Reads {name: policy document} and writes {name: {kind of risk: [action]}}, as cloudsplaining sees it; without what it finds nothing in."""

import json
import sys

from cloudsplaining.scan.policy_document import PolicyDocument

KINDS = [
    "allows_privilege_escalation",
    "permissions_management_without_constraints",
    "allows_data_exfiltration_actions",
    "credentials_exposure",
    "service_wildcard",
    "infrastructure_modification",
]


def risks(document):
    policy = PolicyDocument(document)
    found = {kind: sorted(map(str, getattr(policy, kind))) for kind in KINDS}
    return {kind: actions for kind, actions in found.items() if actions}


print(json.dumps({name: risks(document) for name, document in json.load(sys.stdin).items()}))
