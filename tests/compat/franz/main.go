// Franz-go as a program beside the tests: one command, one line of JSON on standard output, an error on standard error.
//
//	franz BOOTSTRAP create TOPIC PARTITIONS KEY=VALUE...   the topic's id
//	franz BOOTSTRAP produce TOPIC CODEC COUNT              the partition and offset of each record, with an idempotent producer
//	franz BOOTSTRAP consume TOPIC PARTITIONS COUNT [MS]    that many records from the start, or from a timestamp
//	franz BOOTSTRAP group TOPIC GROUP MEMBERS COUNT        that many records, read and committed by members that then leave
//	franz BOOTSTRAP committed GROUP                        how far a group is, by partition; its state and its protocol
//	franz BOOTSTRAP offsets TOPIC                          start and end of each partition
//	franz BOOTSTRAP trim TOPIC OFFSET                      the start of partition 0 after its records before the offset are deleted
//	franz BOOTSTRAP alter TOPIC KEY VALUE                  what the topic's configuration sets afterwards
//	franz BOOTSTRAP delete TOPIC                           nothing
//	franz BOOTSTRAP cluster                                the cluster's id, its controller and its brokers
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const deadline = 20 * time.Second

type record struct {
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Timestamp int64             `json:"timestamp"`
	Key       *string           `json:"key"`
	Value     *string           `json:"value"`
	Headers   map[string]string `json:"headers"`
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	answer, err := obey(ctx, os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(answer)
}

func obey(ctx context.Context, bootstrap, command string, arguments []string) (any, error) {
	switch command {
	case "produce":
		return produce(ctx, bootstrap, arguments[0], arguments[1], number(arguments[2]))
	case "consume":
		return consume(ctx, bootstrap, arguments)
	case "group":
		return group(ctx, bootstrap, arguments[0], arguments[1], number(arguments[2]), number(arguments[3]))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	switch command {
	case "create":
		return create(ctx, admin, arguments)
	case "committed":
		return committed(ctx, admin, arguments[0])
	case "offsets":
		return offsets(ctx, admin, arguments[0])
	case "trim":
		return trim(ctx, admin, arguments[0], int64(number(arguments[1])))
	case "alter":
		return alter(ctx, admin, arguments[0], arguments[1], arguments[2])
	case "delete":
		_, err := admin.DeleteTopic(ctx, arguments[0])
		return nil, err
	case "cluster":
		return cluster(ctx, admin)
	}
	return nil, fmt.Errorf("no such command: %s", command)
}

func create(ctx context.Context, admin *kadm.Client, arguments []string) (any, error) {
	configs := map[string]*string{}
	for _, setting := range arguments[2:] {
		key, value, _ := strings.Cut(setting, "=")
		configs[key] = &value
	}
	created, err := admin.CreateTopic(ctx, int32(number(arguments[1])), 1, configs, arguments[0])
	return created.ID.String(), err
}

func produce(ctx context.Context, bootstrap, topic, codec string, count int) (any, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(codecs[codec]),
		kgo.ProducerLinger(20*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	sent := []*kgo.Record{}
	for row := 0; row < count; row++ {
		sent = append(sent, &kgo.Record{
			Key:       []byte(fmt.Sprintf("%s %d", codec, row)),
			Value:     []byte(strings.Repeat(codec, 20)),
			Timestamp: time.UnixMilli(1_700_000_000_000 + int64(row)),
			Headers:   []kgo.RecordHeader{{Key: "codec", Value: []byte(codec)}},
		})
	}
	// A tombstone, and a record with nothing in it.
	sent = append(sent, &kgo.Record{Key: []byte(codec + " gone"), Timestamp: time.UnixMilli(1_700_000_000_000)})
	sent = append(sent, &kgo.Record{Value: []byte{}, Timestamp: time.UnixMilli(1_700_000_000_000)})
	if err := client.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return nil, err
	}
	return rows(sent), nil
}

func consume(ctx context.Context, bootstrap string, arguments []string) (any, error) {
	start := kgo.NewOffset().AtStart()
	if len(arguments) > 3 {
		start = kgo.NewOffset().AfterMilli(int64(number(arguments[3])))
	}
	wanted := map[int32]kgo.Offset{}
	for partition := 0; partition < number(arguments[1]); partition++ {
		wanted[int32(partition)] = start
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{arguments[0]: wanted}),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := []*kgo.Record{}
	for len(found) < number(arguments[2]) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		found = append(found, fetches.Records()...)
	}
	return rows(found), nil
}

func group(ctx context.Context, bootstrap, topic, name string, members, count int) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := make(chan []*kgo.Record)
	failed := make(chan error, members)
	clients := []*kgo.Client{}
	for range members {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(bootstrap),
			kgo.ConsumerGroup(name),
			kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.HeartbeatInterval(100*time.Millisecond),
			kgo.DisableAutoCommit(),
		)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		clients = append(clients, client)
		go func() {
			for {
				fetches := client.PollFetches(ctx)
				if ctx.Err() != nil {
					return
				}
				if err := fetches.Err(); err != nil {
					failed <- err
					return
				}
				records := fetches.Records()
				if len(records) == 0 {
					continue
				}
				if err := client.CommitRecords(ctx, records...); err != nil {
					failed <- err
					return
				}
				read <- records
			}
		}()
	}
	found := map[string]*kgo.Record{}
	for len(found) < count {
		select {
		case records := <-read:
			for _, each := range records {
				found[fmt.Sprintf("%d-%d", each.Partition, each.Offset)] = each
			}
		case err := <-failed:
			return nil, err
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d records came: %w", len(found), count, ctx.Err())
		}
	}
	cancel()
	for _, client := range clients {
		client.LeaveGroup()
	}
	answer := []*kgo.Record{}
	for _, each := range found {
		answer = append(answer, each)
	}
	return rows(answer), nil
}

func committed(ctx context.Context, admin *kadm.Client, name string) (any, error) {
	fetched, err := admin.FetchOffsets(ctx, name)
	if err != nil {
		return nil, err
	}
	offsets := map[string]int64{}
	fetched.Each(func(each kadm.OffsetResponse) {
		offsets[fmt.Sprintf("%s-%d", each.Topic, each.Partition)] = each.At
	})
	described, err := admin.DescribeGroups(ctx, name)
	if err != nil {
		return nil, err
	}
	return map[string]any{"offsets": offsets, "state": described[name].State, "kind": described[name].ProtocolType}, nil
}

func offsets(ctx context.Context, admin *kadm.Client, topic string) (any, error) {
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	answer := map[int32][2]int64{}
	for partition, end := range ends[topic] {
		answer[partition] = [2]int64{starts[topic][partition].Offset, end.Offset}
	}
	return answer, ends.Error()
}

func trim(ctx context.Context, admin *kadm.Client, topic string, before int64) (any, error) {
	wanted := kadm.Offsets{}
	wanted.Add(kadm.Offset{Topic: topic, Partition: 0, At: before})
	deleted, err := admin.DeleteRecords(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return deleted[topic][0].LowWatermark, deleted.Error()
}

func alter(ctx context.Context, admin *kadm.Client, topic, key, value string) (any, error) {
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}
	altered, err := admin.AlterTopicConfigs(ctx, change, topic)
	if err != nil {
		return nil, err
	}
	if altered[0].Err != nil {
		return nil, fmt.Errorf("%w: %s", altered[0].Err, altered[0].ErrMessage)
	}
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	answer := map[string]string{}
	for _, config := range described[0].Configs {
		if config.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
			answer[config.Key] = config.MaybeValue()
		}
	}
	return answer, described[0].Err
}

func cluster(ctx context.Context, admin *kadm.Client) (any, error) {
	metadata, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	brokers := []string{}
	for _, broker := range metadata.Brokers {
		brokers = append(brokers, fmt.Sprintf("%d %s:%d", broker.NodeID, broker.Host, broker.Port))
	}
	return map[string]any{"cluster": metadata.Cluster, "controller": metadata.Controller, "brokers": brokers}, nil
}

func rows(records []*kgo.Record) []record {
	answer := []record{}
	for _, each := range records {
		headers := map[string]string{}
		for _, header := range each.Headers {
			headers[header.Key] = string(header.Value)
		}
		answer = append(answer, record{
			each.Partition, each.Offset, each.Timestamp.UnixMilli(), text(each.Key), text(each.Value), headers,
		})
	}
	return answer
}

func text(value []byte) *string {
	if value == nil {
		return nil
	}
	found := string(value)
	return &found
}

func number(argument string) int {
	value, err := strconv.Atoi(argument)
	if err != nil {
		panic(err)
	}
	return value
}
