import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The load of benchmarks/broker/load/load.c by Apache Kafka's Java clients: produce, consume or round-trip, then BOOTSTRAP TOPIC
 * PARTITIONS COUNT SIZE. Each record begins with its number; all are accounted for, or the program says in one sentence what was
 * wrong and ends with 1. A round trip is what kafka-e2e-latency does: one record at a time, acks=all, to a consumer in a long poll.
 */
public class Load {
    private static final long SILENCE_MS = 20_000;
    /** Of the JVM's first round trips most is compilation. */
    private static final int DISCARDED = 3_000;

    public static void main(String[] arguments) throws Exception {
        String kind = arguments[0], bootstrap = arguments[1], topic = arguments[2];
        int partitions = Integer.parseInt(arguments[3]), count = Integer.parseInt(arguments[4]), size = Integer.parseInt(arguments[5]);
        switch (kind) {
            case "produce" -> produce(bootstrap, topic, partitions, count, size);
            case "consume" -> consume(bootstrap, topic, partitions, count, size);
            case "round-trip" -> roundTrip(bootstrap, topic, count, size);
            default -> fail("there is no load " + kind);
        }
    }

    private static void produce(String bootstrap, String topic, int partitions, int count, int size) throws Exception {
        AtomicLong acknowledged = new AtomicLong();
        AtomicReference<Exception> trouble = new AtomicReference<>();
        long begun;
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, 5)) {
            producer.partitionsFor(topic);
            begun = System.nanoTime();
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(topic, number % partitions, null, value(number, size)), (sent, error) -> {
                    if (error != null) trouble.compareAndSet(null, error);
                    else acknowledged.incrementAndGet();
                });
            }
            producer.flush();
        }
        double seconds = (System.nanoTime() - begun) / 1e9;
        if (trouble.get() != null) fail("a record was refused: " + trouble.get());
        if (acknowledged.get() != count) fail(acknowledged.get() + " of " + count + " records were acknowledged");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
            long held = 0;
            for (long end : consumer.endOffsets(places(topic, partitions)).values()) held += end;
            if (held != count) fail("the partitions hold " + held + " records, where " + count + " were acknowledged");
        }
        System.out.printf("{\"records\": %d, \"seconds\": %f, \"bytes\": %d, \"client_cpu_s\": %f}%n", count, seconds, (long) count * size, cpu());
    }

    private static void consume(String bootstrap, String topic, int partitions, int count, int size) {
        BitSet seen = new BitSet(count);
        long begun;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
            List<TopicPartition> places = places(topic, partitions);
            consumer.assign(places);
            consumer.seekToBeginning(places);
            begun = System.nanoTime();
            int read = 0;
            long last = System.currentTimeMillis();
            while (read < count) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    int number = (int) ByteBuffer.wrap(record.value()).getLong();
                    if (record.value().length != size || number < 0 || number >= count) fail("a record is not one that was written");
                    if (seen.get(number)) fail("record " + number + " came twice");
                    seen.set(number);
                    read++;
                    last = System.currentTimeMillis();
                }
                if (System.currentTimeMillis() - last > SILENCE_MS) fail(read + " of " + count + " records came");
            }
        }
        double seconds = (System.nanoTime() - begun) / 1e9;
        System.out.printf("{\"records\": %d, \"seconds\": %f, \"bytes\": %d, \"client_cpu_s\": %f}%n", count, seconds, (long) count * size, cpu());
    }

    private static void roundTrip(String bootstrap, String topic, int count, int size) throws Exception {
        int discarded = Math.min(DISCARDED, count);
        long[] taken = new long[count];
        long begun = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap); KafkaProducer<byte[], byte[]> producer = producer(bootstrap, 0)) {
            TopicPartition place = new TopicPartition(topic, 0);
            consumer.assign(List.of(place));
            consumer.seekToEnd(List.of(place));
            consumer.position(place);
            for (int number = -discarded; number < count; number++) {
                if (number == 0) {
                    System.out.println("ready");
                    System.out.flush();
                    System.in.read();
                    begun = System.nanoTime();
                }
                long sent = System.nanoTime();
                producer.send(new ProducerRecord<>(topic, 0, null, value(number, size))).get();
                int read = 0;
                while (read == 0) {
                    if (System.nanoTime() - sent > SILENCE_MS * 1_000_000) fail("record " + number + " did not come");
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(3_000))) {
                        if (ByteBuffer.wrap(record.value()).getLong() != number) fail("another record than " + number + " came");
                        read++;
                    }
                }
                if (read != 1) fail("record " + number + " came " + read + " times");
                if (number >= 0) taken[number] = System.nanoTime() - sent;
            }
        }
        double seconds = (System.nanoTime() - begun) / 1e9;
        double mean = Arrays.stream(taken).average().orElse(0) / 1e6;
        Arrays.sort(taken);
        System.out.printf("{\"records\": %d, \"seconds\": %f, \"mean_ms\": %f, \"p50_ms\": %f, \"p99_ms\": %f, \"client_cpu_s\": %f}%n",
            count, seconds, mean, taken[count / 2] / 1e6, taken[(int) (count * 99L / 100)] / 1e6, cpu());
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, int lingerMs) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", lingerMs, "batch.size", 131_072));
        settings.put("acks", "all");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap) {
        return new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<TopicPartition> places(String topic, int partitions) {
        List<TopicPartition> places = new ArrayList<>();
        for (int number = 0; number < partitions; number++) places.add(new TopicPartition(topic, number));
        return places;
    }

    private static byte[] value(long number, int size) {
        return ByteBuffer.allocate(size).putLong(number).array();
    }

    private static double cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }

    private static void fail(String why) {
        System.err.println(why);
        Runtime.getRuntime().halt(1);
    }
}
