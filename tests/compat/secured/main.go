// Franz-go and sarama as a program beside the tests, on listeners that ask who a client is.
//
//	secured CLIENT BOOTSTRAP MECHANISM USER PASSWORD AUTHORITY TOPIC COUNT
//
// The client is franz or sarama; an authority is the file of the certificate to trust, or - for a listener without TLS. It writes
// that many records to the topic, reads them from its start, and prints their values as one line of JSON; an error goes to standard
// error.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	franzscram "github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/xdg-go/scram"
)

const deadline = 30 * time.Second

type listener struct {
	bootstrap, mechanism, user, password string
	tls                                  *tls.Config
}

func main() {
	at := listener{bootstrap: os.Args[2], mechanism: os.Args[3], user: os.Args[4], password: os.Args[5]}
	topic := os.Args[7]
	count, err := strconv.Atoi(os.Args[8])
	if err == nil && os.Args[6] != "-" {
		at.tls, err = trusting(os.Args[6])
	}
	var values []string
	if err == nil && os.Args[1] == "franz" {
		values, err = franz(at, topic, count)
	} else if err == nil {
		values, err = viaSarama(at, topic, count)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(values)
}

func trusting(file string) (*tls.Config, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + file)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

func franz(at listener, topic string, count int) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	options := []kgo.Opt{kgo.SeedBrokers(at.bootstrap), kgo.ConsumeTopics(topic), kgo.RecordRetries(2), kgo.RequestRetries(2)}
	if at.tls != nil {
		options = append(options, kgo.DialTLSConfig(at.tls))
	}
	switch at.mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: at.user, Pass: at.password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(franzscram.Auth{User: at.user, Pass: at.password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(franzscram.Auth{User: at.user, Pass: at.password}.AsSha512Mechanism()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for number := range count {
		record := kgo.Record{Topic: topic, Value: []byte(fmt.Sprintf("franz-%d", number))}
		if err := client.ProduceSync(ctx, &record).FirstErr(); err != nil {
			return nil, err
		}
	}
	values := []string{}
	for len(values) < count {
		fetched := client.PollFetches(ctx)
		if errs := fetched.Errors(); len(errs) > 0 {
			return nil, errs[0].Err
		}
		fetched.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, nil
}

// scramClient is what sarama leaves to its users.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err == nil {
		c.conversation = client.NewConversation()
	}
	return err
}

func (c *scramClient) Step(challenge string) (string, error) { return c.conversation.Step(challenge) }

func (c *scramClient) Done() bool { return c.conversation.Done() }

func viaSarama(at listener, topic string, count int) ([]string, error) {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Return.Successes = true
	config.Producer.Retry.Max = 1
	config.Metadata.Retry.Max = 1
	config.Net.SASL.Enable = true
	config.Net.SASL.User, config.Net.SASL.Password = at.user, at.password
	config.Net.SASL.Mechanism = sarama.SASLMechanism(at.mechanism)
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		if at.mechanism == "SCRAM-SHA-512" {
			return &scramClient{hash: scram.SHA512}
		}
		return &scramClient{hash: scram.SHA256}
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = at.tls != nil, at.tls
	client, err := sarama.NewClient([]string{at.bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return nil, err
	}
	for number := range count {
		value := sarama.StringEncoder(fmt.Sprintf("sarama-%d", number))
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: value}); err != nil {
			return nil, err
		}
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	values := []string{}
	for end := time.After(deadline); len(values) < count; {
		select {
		case message := <-partition.Messages():
			values = append(values, string(message.Value))
		case failure := <-partition.Errors():
			return nil, failure
		case <-end:
			return nil, errors.New("no more records within the deadline")
		}
	}
	return values, nil
}
