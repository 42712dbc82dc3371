// Runs the jobs of a JSON file by croner.
const { spawn } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { Cron } = require("croner");

for (const [, fields, command] of JSON.parse(readFileSync(process.argv[2]))) {
  new Cron(fields, () => spawn("/bin/sh", ["-c", command], { stdio: "ignore" }));
}
