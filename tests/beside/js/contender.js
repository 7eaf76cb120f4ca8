// Contender of node-redlock. src/main.rs describes the arguments and the line of figures, which all contenders share.
"use strict";

const { once } = require("node:events");
const { setTimeout: sleep } = require("node:timers/promises");
const { Redis } = require("ioredis");
const { default: Redlock } = require("redlock");

const WARM_UP_SECONDS = 2;
// The library has no default.
const LEASE_MS = 10_000;

const [ports, kind, name, tasks, sectionMs, seconds, witnessPort] = process.argv.slice(2);
const connect = (port) => new Redis({ host: "127.0.0.1", port: Number(port) });

async function run(redlock, name, seconds, witness) {
  const figures = { grants: 0, times: [], errors: 0, twoInside: 0 };
  const end = performance.now() + seconds * 1e3;
  const waitingSince = new Map();

  async function acquire(name) {
    while (performance.now() < end) {
      try {
        return await redlock.acquire([name], LEASE_MS);
      } catch {
        figures.errors += 1;
        await sleep(10);
      }
    }
  }

  async function section() {
    if ((await witness.incr(`inside-${name}`)) !== 1) figures.twoInside += 1;
    await sleep(Number(sectionMs));
    await witness.decr(`inside-${name}`);
  }

  async function task(task) {
    for (let number = 0; performance.now() < end; number++) {
      const begun = performance.now();
      waitingSince.set(task, begun);
      const lock = await acquire(witness ? name : `${name}-${task}-${number}`);
      if (performance.now() >= end) {
        if (lock) await lock.release().catch(() => {});
        return;
      }
      waitingSince.delete(task);
      figures.grants += 1;
      if (witness) {
        figures.times.push(performance.now() - begun);
        await section();
      }
      await lock.release().catch(() => (figures.errors += 1));
      if (!witness) figures.times.push(performance.now() - begun);
    }
  }

  const all = Array.from({ length: Number(tasks) }, (_, number) => task(number));
  // A task that waits beyond the end cannot be called off.
  await Promise.race([Promise.all(all), sleep(seconds * 1e3 + 200)]);
  for (const since of waitingSince.values()) figures.times.push(end - since);
  return figures;
}

async function main() {
  if (kind !== "lock") throw new Error(`the only kind is lock, not ${kind}`);
  const redlock = new Redlock(ports.split(",").map(connect));
  // Each refusal of a master is such an event.
  redlock.on("error", () => {});
  const witness = witnessPort === "0" ? undefined : connect(witnessPort);
  await run(redlock, `warm-up-${name}-${process.pid}`, WARM_UP_SECONDS);
  console.log("ready");
  const line = await Promise.race([once(process.stdin, "data"), once(process.stdin, "end")]);
  if (line.length === 0) process.exit(1);
  const { grants, times, errors, twoInside } = await run(redlock, name, Number(seconds), witness);
  times.sort((a, b) => a - b);
  const at = (share) => (times[Math.round((times.length - 1) * share)] ?? 0).toFixed(3);
  const rate = (grants / Number(seconds)).toFixed(1);
  console.log(
    `grants=${grants} grants_s=${rate} p50_ms=${at(0.5)} p99_ms=${at(0.99)} max_ms=${at(1)} errors=${errors} two_inside=${twoInside}`,
  );
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
