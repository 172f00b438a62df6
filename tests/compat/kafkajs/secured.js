// KafkaJS as a program beside the tests, on listeners that ask who a client is.
//
//     node secured.js BOOTSTRAP MECHANISM USER PASSWORD AUTHORITY TOPIC COUNT
//
// An authority is the file of the certificate to trust, or - for a listener without TLS. It writes that many records to the topic, reads
// them as a member of a group, and prints their values as one line of JSON; an error goes to standard error.
const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, mechanism, username, password, authority, topic, counted] = process.argv.slice(2);
const count = Number(counted);
const kafka = new Kafka({
  brokers: [bootstrap],
  sasl: { mechanism: mechanism.toLowerCase(), username, password },
  ssl: authority === "-" ? false : { ca: [fs.readFileSync(authority, "utf-8")] },
  logLevel: logLevel.NOTHING,
  retry: { retries: 2 },
});

async function main() {
  const producer = kafka.producer();
  await producer.connect();
  for (let number = 0; number < count; number++) {
    await producer.send({ topic, messages: [{ value: `kafkajs-${number}` }] });
  }
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: `${topic}-group` });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const values = [];
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("no more records within the deadline")), 30000).unref();
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString());
        if (values.length === count) resolve();
      },
    });
  });
  await consumer.disconnect();
  console.log(JSON.stringify(values));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error.message);
    process.exit(1);
  },
);
