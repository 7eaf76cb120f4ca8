// Contender of redsync. src/main.rs describes the arguments and the line of figures, which all contenders share.
package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	adapter "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

const warmUpSeconds = 2

type contender struct {
	locks     *redsync.Redsync
	name      string
	sectionMs float64
	witness   *redis.Pool // nil without one: then each task makes pairs on names of its own

	mutex                     sync.Mutex // of the figures
	grants, errors, twoInside int
	times                     []time.Duration
}

func main() {
	var masters []adapter.Pool
	for _, port := range strings.Split(os.Args[1], ",") {
		masters = append(masters, redigo.NewPool(connect(port)))
	}
	kind, name, witnessPort := os.Args[2], os.Args[3], os.Args[7]
	tasks, sectionMs, seconds := number(os.Args[4]), number(os.Args[5]), number(os.Args[6])
	if kind != "lock" {
		panic("the kind is lock, not " + kind)
	}
	locks := redsync.New(masters...)
	warmUp := contender{locks: locks, name: fmt.Sprintf("warm-up-%s-%d", name, os.Getpid())}
	warmUp.run(int(tasks), warmUpSeconds)
	it := contender{locks: locks, name: name, sectionMs: sectionMs}
	if witnessPort != "0" {
		it.witness = connect(witnessPort)
	}
	fmt.Println("ready")
	if count, _ := os.Stdin.Read(make([]byte, 1)); count == 0 {
		os.Exit(1)
	}
	it.run(int(tasks), seconds)
	fmt.Printf("grants=%d grants_s=%.1f p50_ms=%.3f p99_ms=%.3f max_ms=%.3f errors=%d two_inside=%d\n",
		it.grants, float64(it.grants)/seconds, it.at(0.5), it.at(0.99), it.at(1), it.errors, it.twoInside)
}

func number(text string) float64 {
	number, err := strconv.ParseFloat(text, 64)
	check(err)
	return number
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Connections stay open between uses.
func connect(port string) *redis.Pool {
	return &redis.Pool{MaxIdle: 100, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", "127.0.0.1:"+port) }}
}

func (it *contender) run(count int, seconds float64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
	defer cancel()
	var tasks sync.WaitGroup
	for task := range count {
		tasks.Go(func() { it.task(ctx, task) })
	}
	tasks.Wait()
	slices.Sort(it.times)
}

func (it *contender) at(share float64) float64 {
	if len(it.times) == 0 {
		return 0
	}
	return it.times[int(math.Round(float64(len(it.times)-1)*share))].Seconds() * 1e3
}

func (it *contender) task(ctx context.Context, task int) {
	for number := 0; ctx.Err() == nil; number++ {
		begun, name := time.Now(), it.name
		if it.witness == nil {
			name = fmt.Sprintf("%s-%d-%d", it.name, task, number)
		}
		lock := it.locks.NewMutex(name)
		for lock.LockContext(ctx) != nil && ctx.Err() == nil {
			it.count(&it.errors)
			time.Sleep(10 * time.Millisecond)
		}
		taken := time.Since(begun)
		if ctx.Err() != nil {
			_, _ = lock.Unlock()
		} else {
			it.count(&it.grants)
			if it.witness != nil {
				it.section()
			}
			if ok, err := lock.Unlock(); !ok || err != nil {
				it.count(&it.errors)
			}
			if it.witness == nil {
				taken = time.Since(begun)
			}
		}
		it.mutex.Lock()
		it.times = append(it.times, taken)
		it.mutex.Unlock()
	}
}

func (it *contender) section() {
	witness := it.witness.Get()
	defer witness.Close()
	inside, err := redis.Int(witness.Do("INCR", "inside-"+it.name))
	check(err)
	if inside != 1 {
		it.count(&it.twoInside)
	}
	time.Sleep(time.Duration(it.sectionMs * float64(time.Millisecond)))
	_, err = witness.Do("DECR", "inside-"+it.name)
	check(err)
}

func (it *contender) count(what *int) {
	it.mutex.Lock()
	*what++
	it.mutex.Unlock()
}
