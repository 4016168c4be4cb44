#!/usr/bin/env python3
"""Settings: which of flag, environment and file is in force, and editing the file."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BIN = sys.argv.pop(1)


class SettingsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-settings-")
        self.addCleanup(self.folder.cleanup)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("TANDEM_")}
        self.env["XDG_CONFIG_HOME"] = self.folder.name
        self.path = os.path.join(self.folder.name, "tandem", "config.toml")

    def write(self, text):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "w") as file:
            file.write(text)

    def tandem(self, *args, code=0, **env):
        done = subprocess.run([os.path.join(BIN, "tandem"), *args], env={**self.env, **env}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def origin(self, key, *flags, **env):
        out, _ = self.tandem("config", "show", "--origin", "-o", "json", *flags, **env)
        shown = json.loads(out)
        self.assertEqual((shown["api_version"], shown["kind"]), ("tandem.v1", "settings"))
        item = next(item for item in shown["items"] if item["key"] == key)
        self.assertEqual(sorted(item), ["default", "key", "origin", "value", "variable", "what", "where"])
        return item["value"], item["origin"], item["where"]

    def test_the_nearest_layer_is_in_force(self):
        self.assertEqual(self.origin("address"), ("127.0.0.1:7460", "default", ""))
        self.tandem("config", "set", "address", "127.0.0.1:2")
        self.assertEqual(self.origin("address"), ("127.0.0.1:2", "user file", self.path))
        self.assertEqual(self.origin("address", TANDEM_ADDRESS="127.0.0.1:3"),
                         ("127.0.0.1:3", "environment", "TANDEM_ADDRESS"))
        self.assertEqual(self.origin("address", "--address", "127.0.0.1:4", TANDEM_ADDRESS="127.0.0.1:3"),
                         ("127.0.0.1:4", "flag", "--address"))
        # And it is what commands use.
        self.assertIn("127.0.0.1:2 ", self.tandem("job", "ls", code=5, TANDEM_PATIENCE="100ms")[1])
        self.assertIn("127.0.0.1:4 ", self.tandem("job", "ls", "--address", "127.0.0.1:4", code=5,
                                                  TANDEM_PATIENCE="100ms")[1])

    def test_the_documents_list_every_setting(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/command_line.md")) as file:
            document = file.read()
        for item in json.loads(self.tandem("config", "show", "-o", "json")[0])["items"]:
            self.assertIn(f"| `{item['key']}` | `{item['variable']}` | `{item['default']}` |", document)

    def test_set_get_unset_path(self):
        self.assertEqual(self.tandem("config", "path")[0], self.path + "\n")
        self.tandem("config", "set", "output", "json")
        with open(self.path) as file:
            self.assertEqual(file.read(), 'output = "json"\n')
        self.assertEqual(json.loads(self.tandem("config", "get", "output")[0])["value"], "json")
        self.tandem("config", "unset", "output")
        self.assertEqual(self.tandem("config", "get", "output")[0], "table\n")

    def test_the_file_sets_the_output_format_also_of_errors(self):
        self.tandem("config", "set", "output", "json")
        out, err = self.tandem("config", "get", "adress", code=3)
        self.assertEqual(json.loads(out)["error"]["reason"], "UNKNOWN_SETTING")
        self.assertIn("did you mean address?", err)

    def test_what_is_wrong_is_named_with_its_place(self):
        self.assertIn("(UNKNOWN_SETTING)", self.tandem("config", "set", "adress", "a:1", code=3)[1])
        self.assertIn("(BAD_DURATION)", self.tandem("config", "set", "patience", "soon", code=2)[1])
        self.assertIn("(AMBIGUOUS)", self.tandem("config", "set", "patience", "90", code=2)[1])
        self.assertFalse(os.path.exists(self.path))
        self.write('output = "json"\nadress = "a:1"\n')
        err = self.tandem("job", "ls", code=3)[1]
        self.assertIn(f"{self.path} line 2: ", err)
        self.assertIn("(UNKNOWN_SETTING)", err)
        self.assertIn("TANDEM_OUTPUT: ", self.tandem("config", "show", code=2, XDG_CONFIG_HOME="/none",
                                                     TANDEM_OUTPUT="xml")[1])
        self.write("oops\n")
        self.assertIn("(BAD_SETTINGS)", self.tandem("config", "set", "output", "json", code=2)[1])
        # Help, versions and where the file is need no settings.
        self.tandem("config", "path")
        self.tandem("version", "--client")
        self.tandem("run", "--help")

    @unittest.skipUnless(os.geteuid() == 0, "only root may become another user")
    def test_the_home_of_another_user_holds_no_settings(self):
        self.tandem("config", "set", "output", "json")
        os.chmod(self.folder.name, 0o700)
        home = os.path.join(self.folder.name, "home")
        asks = [os.path.join(BIN, "tandem"), "config", "get", "output"]

        def nobodys(**env):
            kept = {key: value for key, value in self.env.items() if key != "XDG_CONFIG_HOME"}
            return subprocess.run(asks, env={**kept, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60, user=65534, extra_groups=[])
        try:
            done = nobodys(HOME=home)
        except PermissionError:
            self.skipTest("nobody may not run the program here")
        self.assertEqual((done.returncode, done.stdout), (0, "table\n"), done.stderr)
        done = nobodys(XDG_CONFIG_HOME=self.folder.name)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("(PATH_UNREADABLE)", done.stderr)

    def test_a_file_that_cannot_be_written_is_an_error(self):
        self.assertIn("(PATH_UNWRITABLE)", self.tandem("config", "set", "output", "json", code=4,
                                                       XDG_CONFIG_HOME="/proc/none")[1])
        self.assertIn("(PATH_UNREADABLE)", self.tandem("config", "path", code=3, XDG_CONFIG_HOME="", HOME="")[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
