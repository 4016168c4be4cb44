"""Does what a page of docs/ tells its reader to do, word by word.

A fenced block is one of
    ```LANGUAGE FILE       the text of a file in the reader's folder
    ```sh                  commands, run in order by one shell that stops at the first that fails
    ```sh background       commands that go on running: those of "another terminal"; a cluster is waited for
    ```anything else       for the eye
"""
import os
import re
import signal
import subprocess

from processes import Failed, free_port

BLOCK = re.compile(r"^```(\S+)(?: +([^\n]+))?\n(.*?)^```$", re.M | re.S)
# After `tandem up` in the background: until the cluster is up, or it has ended.
AWAIT = "until [ -e up.ready ]; do kill -0 $! || exit 1; sleep 0.1; done"  # poll


def script(text, port):
    """The page's commands as one shell script; a `tandem up` gets a port of its own."""
    lines = ["set -eu"]
    for language, info, body in BLOCK.findall(text):
        if language == "sh" and info == "background":
            command = body.strip().replace("tandem up", f"tandem up --port {port} --ready-file up.ready")
            lines += [command + " &", "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT", AWAIT]
        elif language == "sh" and not info:
            lines.append(body.rstrip())
        elif language != "sh" and info:
            marker = "END_OF_" + re.sub(r"\W", "_", info).upper()
            lines.append(f"cat > {info} <<'{marker}'\n{body}{marker}")
    return "\n".join(lines) + "\n"


def run_page(path, folder, env, timeout):
    """Runs a page in an empty folder. Raises Failed with what was said; returns the output."""
    port = free_port()
    with open(path, encoding="utf-8") as file:
        text = script(file.read(), port)
    with open(os.path.join(folder, "page.sh"), "w", encoding="utf-8") as file:
        file.write(text)
    shell = subprocess.Popen(["bash", "-x", "page.sh"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, start_new_session=True,
                             env={**os.environ, **env, "TANDEM_ADDRESS": f"127.0.0.1:{port}"})
    try:
        out, _ = shell.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        out, _ = shell.communicate()
        raise Failed(f"{path}: not done after {timeout} s\n{out[-6000:]}") from None
    if shell.returncode != 0:
        raise Failed(f"{path}: exit {shell.returncode}\n{out[-6000:]}")
    return out
