// The same load by franz-go: produce, consume or round-trip, then BOOTSTRAP TOPIC PARTITIONS COUNT SIZE. Each record begins with
// its number; all are accounted for, or the program says in one sentence what was wrong and ends with 1.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	silence   = 20 * time.Second
	discarded = 1000
)

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

func value(number int64, size int) []byte {
	made := make([]byte, size)
	binary.BigEndian.PutUint64(made, uint64(number))
	return made
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(options...)
	if err != nil {
		fail("no client: %v", err)
	}
	return made
}

func main() {
	if len(os.Args) != 7 {
		fail("franz produce|consume|round-trip BOOTSTRAP TOPIC PARTITIONS COUNT SIZE")
	}
	kind, bootstrap, topic := os.Args[1], os.Args[2], os.Args[3]
	var numbers [3]int
	for place, text := range os.Args[4:] {
		number, err := strconv.Atoi(text)
		if err != nil {
			fail("%q is not a number", text)
		}
		numbers[place] = number
	}
	partitions, count, size := numbers[0], numbers[1], numbers[2]
	var done map[string]float64
	switch kind {
	case "produce":
		done = produce(bootstrap, topic, partitions, count, size)
	case "consume":
		done = consume(bootstrap, topic, partitions, count, size)
	case "round-trip":
		done = roundTrip(bootstrap, topic, count, size)
	default:
		fail("there is no load %s", kind)
	}
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	done["client_cpu_s"] = float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
	json.NewEncoder(os.Stdout).Encode(done)
}

func producer(bootstrap string, linger time.Duration) *kgo.Client {
	return client(
		kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(linger),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(131072),
		kgo.MaxBufferedRecords(100000),
	)
}

func produce(bootstrap, topic string, partitions, count, size int) map[string]float64 {
	ctx := context.Background()
	made := producer(bootstrap, 5*time.Millisecond)
	var acknowledged atomic.Int64
	begun := time.Now()
	for number := 0; number < count; number++ {
		record := &kgo.Record{Topic: topic, Partition: int32(number % partitions), Value: value(int64(number), size)}
		made.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				fail("a record was refused: %v", err)
			}
			acknowledged.Add(1)
		})
	}
	if err := made.Flush(ctx); err != nil {
		fail("not all was written: %v", err)
	}
	seconds := time.Since(begun).Seconds()
	if acknowledged.Load() != int64(count) {
		fail("%d of %d records were acknowledged", acknowledged.Load(), count)
	}
	ends, err := kadm.NewClient(made).ListEndOffsets(ctx, topic)
	if err != nil {
		fail("no offsets: %v", err)
	}
	var held int64
	ends.Each(func(end kadm.ListedOffset) { held += end.Offset })
	if held != int64(count) {
		fail("the partitions hold %d records, where %d were acknowledged", held, count)
	}
	made.Close()
	return map[string]float64{"records": float64(count), "seconds": seconds, "bytes": float64(count * size)}
}

func reader(bootstrap, topic string, partitions int, from kgo.Offset) *kgo.Client {
	places := map[int32]kgo.Offset{}
	for number := 0; number < partitions; number++ {
		places[int32(number)] = from
	}
	return client(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: places}))
}

func poll(made *kgo.Client) []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	fetches := made.PollFetches(ctx)
	for _, trouble := range fetches.Errors() {
		fail("a fetch failed: %v", trouble.Err)
	}
	return fetches.Records()
}

func consume(bootstrap, topic string, partitions, count, size int) map[string]float64 {
	made := reader(bootstrap, topic, partitions, kgo.NewOffset().AtStart())
	seen := make([]bool, count)
	begun := time.Now()
	for read := 0; read < count; {
		for _, record := range poll(made) {
			number := int64(-1)
			if len(record.Value) == size {
				number = int64(binary.BigEndian.Uint64(record.Value))
			}
			if number < 0 || number >= int64(count) {
				fail("a record is not one that was written")
			}
			if seen[number] {
				fail("record %d came twice", number)
			}
			seen[number] = true
			read++
		}
	}
	seconds := time.Since(begun).Seconds()
	made.Close()
	return map[string]float64{"records": float64(count), "seconds": seconds, "bytes": float64(count * size)}
}

func roundTrip(bootstrap, topic string, count, size int) map[string]float64 {
	ctx := context.Background()
	writing := producer(bootstrap, 0)
	// A new topic: its start is its end, and nothing can be missed.
	reading := reader(bootstrap, topic, 1, kgo.NewOffset().AtStart())
	taken := make([]float64, 0, count)
	var begun time.Time
	sum := 0.0
	for number := -discarded; number < count; number++ {
		if number == 0 {
			fmt.Println("ready")
			bufio.NewReader(os.Stdin).ReadString('\n')
			begun = time.Now()
		}
		sent := time.Now()
		if err := writing.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: value(int64(number), size)}).FirstErr(); err != nil {
			fail("record %d was refused: %v", number, err)
		}
		records := poll(reading)
		if len(records) != 1 || int64(binary.BigEndian.Uint64(records[0].Value)) != int64(number) {
			fail("record %d did not come, or not alone", number)
		}
		if number >= 0 {
			taken = append(taken, time.Since(sent).Seconds()*1e3)
			sum += taken[len(taken)-1]
		}
	}
	seconds := time.Since(begun).Seconds()
	sort.Float64s(taken)
	reading.Close()
	writing.Close()
	return map[string]float64{
		"records": float64(count), "seconds": seconds, "mean_ms": sum / float64(count),
		"p50_ms": taken[count/2], "p99_ms": taken[count*99/100],
	}
}
