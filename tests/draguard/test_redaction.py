"""What is secret does not come out, in whatever form a text or an object has it."""

import json
import string

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from draguard.redaction import MASK, redacted, redacted_object, without_flag_values

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nq9Zk+/x==\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
SECRET = "Qx7-planted_Zw9"
FORMS = (
    "Authorization: Bearer {}",
    "authorization: Basic {}",
    'curl -H "Authorization: Bearer {}" https://a',
    "'Authorization': 'Token {}'",
    '{{"headers": {{"Authorization": "Bearer {}"}}}}',
    "got Bearer {}, retrying",
    "https://user:{}@example.com/x",
    "https://{}@example.com/x",
    "postgres://u:{}@db:5432/x?sslmode=off",
    "HTTPS_PROXY=http://{}:x@proxy:3128",
    "password={} user=x",
    "password: {}",
    'password: "{}"',
    "password: '{}'",
    "DB_PASSWORD={}",
    "db.passwd = {}",
    "api_key={}",
    "apiKey: {}",
    "X-Auth-Token: {}",
    "x-api-key: {}",
    "https://a/?token={}&x=1",
    "https://a/x?access_token={}",
    'level=info msg="retry" token={} n=1',
    '{{"token":"{}","n":1}}',
    '{{"log":"{{\\"password\\":\\"{}\\"}}"}}',
    "routing_key: {}",
    "encryption_key={}",
    "signing-key: {}",
    "tls.key: {}",
    '"auth": "{}"',
    "integrationKey: {}",
    "url: https://hooks.slack.com/services/{}",
    "aws_secret_access_key = {}",
    "client-secret: {}",
    "--token {} --x",
    "--token={} --x",
    "--password {}",
    "-password {}",
    "Cookie: session={}",
    "password: |\n  {}\n  second\nuser: x",
    "token: >-\n    {}\nuser: x",
)
"""How texts that are collected spell a secret."""
TOKENS = st.text(string.ascii_letters + string.digits + "-_.~+", min_size=8, max_size=60).filter(
    lambda text: text[0] not in "-.~+" and text.lower() not in {"true", "false"}
)
ANY_PASSWORD = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=["Cc", "Zs"]),
    min_size=6,
)


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_masked_in_every_form(form: str) -> None:
    assert SECRET not in redacted(form.format(SECRET))
    assert SECRET not in redacted(f"2026-01-05 line before\n{form.format(SECRET)}\nline after")


@given(TOKENS, st.sampled_from(FORMS))
def test_whatever_the_token_is(token: str, form: str) -> None:
    assert token not in redacted(form.format(token))


@given(ANY_PASSWORD)
@example("'\\'000")
def test_a_quoted_password_of_any_characters_is_masked_whole(password: str) -> None:
    in_json = f'"password": {json.dumps(password, ensure_ascii=False)}, "n": 1'
    in_yaml = yaml.safe_dump({"password": password}, allow_unicode=True, width=1 << 30)

    for line in (in_json, in_yaml):
        rest = redacted(line).replace("password", "").replace(MASK, "")
        assert [part for part in parts_of(password) if part in rest] == []


def parts_of(password: str) -> set[str]:
    """What would give a password away: any four of its characters in a row."""
    return {password[at : at + 4] for at in range(len(password) - 3)}


@pytest.mark.parametrize("text", [PEM, PEM.replace("\n", "\\n"), PEM.partition("-----END")[0], JWT])
def test_keys_and_tokens_are_known_by_their_form(text: str) -> None:
    for stated in (text, f"a\n{text}\nb", json.dumps({"x": text})):
        found = redacted(stated)
        assert "MIIE" not in found
        assert "eyJ" not in found
        assert "q9Zk" not in found


_36 = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"
BARE = (
    f"hf_{_36[:34]}",
    f"nvapi-{_36[:20]}_{_36}-{_36[:6]}",
    f"hvs.CAESI{_36}-_{_36}",
    f"sk-{_36}",
    f"sk-proj-{_36}_{_36}",
    f"npm_{_36}",
    f"sha256~{_36}_-{_36[:5]}",
    f"dckr_pat_{_36[:20]}-{_36[:6]}",
    f"glsa_{_36[:32]}_{_36[:8]}",
    f"xapp-1-A{_36[:8]}-123-{_36}",
    f"glpat-{_36[:20]}",
    f"glrt-t1_{_36[:20]}",
)
"""Made up, in the forms of Hugging Face, NVIDIA NGC, Vault, OpenAI, npm, OpenShift, Docker Hub,
Grafana, Slack and GitLab.
"""


@pytest.mark.parametrize("token", BARE)
@pytest.mark.parametrize("form", ["{}", "got {}, retrying", "x={}&y=1", '"{}"', "({})"])
def test_a_token_without_a_key_is_known_by_its_form(token: str, form: str) -> None:
    assert redacted(form.format(token)) == form.format(MASK)


@pytest.mark.parametrize(
    "command",
    [
        "curl -u {} https://a/x",
        "curl -sSu {} https://a/x",
        "curl -u{} https://a/x",
        "curl -s -u '{}' https://a/x",
        'curl -X POST --user "{}" https://a/x',
        "curl --user={} https://a/x",
    ],
)
def test_the_login_of_a_curl_command_is_masked(command: str) -> None:
    assert redacted(command.format("admin:s3cr3t pw" if "'" in command else "admin:s3cr3t")) == (
        command.replace("'{}'", MASK).replace('"{}"', MASK).replace("{}", MASK)
    )


@pytest.mark.parametrize(
    "text",
    [
        "automountServiceAccountToken: false",
        "pip install sk-learn sk-learn-contrib-of-a-very-long-name",
        "risk-0123456789-0123456789-0123456789",
        "hf_transfer and HF_HUB_ENABLE_HF_TRANSFER are set",
        "npm_config_registry npm_lifecycle_event",
        "nvapi-client hvs.io",
        "sha256~backup of sha256:0123 xapp-config-of-a-node glrt-short glsa_dashboard",
        "curl -v https://a/x; ls -u name:other",
        "curl --user-agent draguard https://a/x",
        '"automountServiceAccountToken": false,',
        "tokens: 12",
        "secretName: draguard-web",
        "ConfigMap draguard-system/draguard-policy, key policy.yaml",
        "https://prod.example.com:6443/api/v1/nodes",
        "XID 79 (GPU has fallen off the bus), seen by kmsg",
        "GPU-b0000000-0000-0000-0000-000000000000",
        "bad      source podresources: PermissionDenied on node-c",
        "--policy=/etc/draguard/policy.yaml --listen=:9401",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "basic checks passed",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_a_known_secret_is_masked_wherever_it_stands() -> None:
    assert redacted("user opensesame logged in", ("opensesame", "")) == f"user {MASK} logged in"


def test_an_object_keeps_its_form() -> None:
    content = {
        "args": ["--token", SECRET, "--listen=:1", f"--password={SECRET}"],
        "apiKey": SECRET,
        "nested": [{"note": f"Bearer {SECRET}", "n": 1, "none": None, "token": True}],
        "secretName": "web",
    }

    assert redacted_object(content) == {
        "args": ["--token", MASK, "--listen=:1", f"--password={MASK}"],
        "apiKey": MASK,
        "nested": [{"note": f"Bearer {MASK}", "n": 1, "none": None, "token": True}],
        "secretName": "web",
    }


@pytest.mark.parametrize(
    "content",
    [
        {"token": [SECRET]},
        {"password": {"value": SECRET, "n": 1}},
        {"name": "DB_PASSWORD", "value": SECRET},
        {"httpHeaders": [{"name": "X-Auth-Token", "value": SECRET}]},
        {"auths": {"registry.example.com": {"auth": SECRET}}},
    ],
)
def test_every_text_below_the_name_of_a_secret_is_masked(content: object) -> None:
    assert SECRET not in json.dumps(redacted_object(content))


def test_which_secret_a_volume_has_is_no_secret() -> None:
    content = {"volumes": [{"name": "web", "secret": {"secretName": "web", "defaultMode": 420}}]}

    assert redacted_object(content) == content


@given(TOKENS, st.sampled_from(FORMS))
def test_no_value_of_an_object_has_it(token: str, form: str) -> None:
    content: object = {"a": [{"b": form.format(token)}], form.format(token): 1}

    assert token not in json.dumps(redacted_object(content))


def test_a_usage_error_keeps_its_words() -> None:
    assert without_flag_values("argument --tokn=x: invalid") == f"argument --tokn={MASK} invalid"
    assert without_flag_values("argument --token: expected one argument") == (
        "argument --token: expected one argument"
    )
