import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.LongStream;
import org.redisson.Redisson;
import org.redisson.RedissonMultiLock;
import org.redisson.RedissonRedLock;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Contender of Redisson. src/main.rs describes the arguments and the line of figures, which all contenders share. */
public final class Contender {
    private static final double WARM_UP_SECONDS = 2;

    private final List<RedissonClient> masters;
    private final String kind, name;
    private final long sectionMs;
    private final RAtomicLong inside; // null without a witness: then each task makes pairs on names of its own
    private final LongAdder grants = new LongAdder(), errors = new LongAdder(), twoInside = new LongAdder();
    private final ConcurrentLinkedQueue<Long> times = new ConcurrentLinkedQueue<>();

    private Contender(List<RedissonClient> masters, String kind, String name, long sectionMs, RAtomicLong inside) {
        this.masters = masters;
        this.kind = kind;
        this.name = name;
        this.sectionMs = sectionMs;
        this.inside = inside;
    }

    public static void main(String[] args) throws Exception {
        List<RedissonClient> masters = Arrays.stream(args[0].split(",")).map(Contender::connect).toList();
        String kind = args[1], name = args[2], witness = args[6];
        int tasks = Integer.parseInt(args[3]);
        long sectionMs = Long.parseLong(args[4]);
        RAtomicLong inside = witness.equals("0") ? null : connect(witness).getAtomicLong("inside-" + name);
        String warmUp = "warm-up-" + name + "-" + ProcessHandle.current().pid();
        new Contender(masters, kind, warmUp, sectionMs, null).run(tasks, WARM_UP_SECONDS);
        System.out.println("ready");
        if (System.in.read() < 0) {
            System.exit(1);
        }
        System.out.println(new Contender(masters, kind, name, sectionMs, inside).run(tasks, Double.parseDouble(args[5])));
        System.exit(0);
    }

    private static RedissonClient connect(String port) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        return Redisson.create(config);
    }

    private String run(int tasks, double seconds) throws InterruptedException {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        AtomicLongArray waitingSince = new AtomicLongArray(tasks);
        for (int i = 0; i < tasks; i++) {
            int task = i;
            Thread thread = new Thread(() -> task(task, end, waitingSince));
            thread.setDaemon(true);
            thread.start();
        }
        // A task that waits beyond the end cannot be called off.
        Thread.sleep((long) (seconds * 1e3) + 200);
        LongStream waits = LongStream.range(0, tasks).map(task -> waitingSince.get((int) task)).filter(since -> since != 0);
        LongStream all = LongStream.concat(times.stream().mapToLong(time -> time), waits.map(since -> end - since));
        long[] sorted = all.sorted().toArray();
        return String.format(Locale.ROOT, "grants=%d grants_s=%.1f p50_ms=%.3f p99_ms=%.3f max_ms=%.3f errors=%d two_inside=%d",
                grants.sum(), grants.sum() / seconds, at(sorted, 0.5), at(sorted, 0.99), at(sorted, 1), errors.sum(), twoInside.sum());
    }

    private static double at(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.round((sorted.length - 1) * share)] / 1e6;
    }

    private void task(int task, long end, AtomicLongArray waitingSince) {
        for (long number = 0; System.nanoTime() < end; number++) {
            long begun = System.nanoTime();
            waitingSince.set(task, begun);
            RLock lock = lock(inside == null ? name + "-" + task + "-" + number : name);
            while (!succeeds(lock::lock)) {
                pause(10);
            }
            long granted = System.nanoTime();
            if (granted >= end) {
                succeeds(lock::unlock);
                return;
            }
            waitingSince.set(task, 0);
            grants.increment();
            if (inside != null) {
                times.add(granted - begun);
                succeeds(this::section);
            }
            succeeds(lock::unlock);
            if (inside == null) {
                times.add(System.nanoTime() - begun);
            }
        }
    }

    @SuppressWarnings("deprecation") // of RedissonRedLock
    private RLock lock(String name) {
        boolean fair = kind.equals("fair_lock");
        RLock[] locks = masters.stream().map(it -> fair ? it.getFairLock(name) : it.getLock(name)).toArray(RLock[]::new);
        return switch (kind) {
            case "lock", "fair_lock" -> locks[0];
            case "red_lock" -> new RedissonRedLock(locks);
            case "multi_lock" -> new RedissonMultiLock(locks);
            default -> throw new IllegalArgumentException(kind);
        };
    }

    private void section() {
        if (inside.incrementAndGet() != 1) {
            twoInside.increment();
        }
        pause(sectionMs);
        inside.decrementAndGet();
    }

    private boolean succeeds(Runnable call) {
        try {
            call.run();
            return true;
        } catch (RuntimeException error) {
            errors.increment();
            return false;
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
