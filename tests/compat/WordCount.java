import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * One instance of a Kafka Streams application that counts words exactly once: lines are cut into words, the words go through a topic of
 * their own to the instance that counts them, and the counts live in stores that have a compacted topic behind them.
 *
 * <p>Arguments: the servers, a directory for the state, and the protocol of the group, classic or streams. Prints its state whenever that changes. SIGTERM closes it.
 */
public final class WordCount {
  public static void main(String[] arguments) {
    StreamsBuilder builder = new StreamsBuilder();
    Grouped<String, String> texts = Grouped.with(Serdes.String(), Serdes.String());
    KStream<String, String> lines = builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()));
    lines
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word, texts)
        .count()
        .toStream()
        .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
    // A windowed store: its topic is both compacted and aged.
    lines.groupByKey(texts).windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1))).count();

    Properties properties = new Properties();
    properties.put("application.id", "word-count");
    properties.put("bootstrap.servers", arguments[0]);
    properties.put("state.dir", arguments[1]);
    properties.put("processing.guarantee", "exactly_once_v2");
    properties.put("commit.interval.ms", "100");
    properties.put("group.protocol", arguments[2]);
    // What a killed instance leaves open is in nobody's way for long.
    if (arguments[2].equals("classic")) {
      properties.put("num.standby.replicas", "1");
      properties.put("consumer.session.timeout.ms", "6000");
    }
    properties.put("producer.transaction.timeout.ms", "6000");

    KafkaStreams streams = new KafkaStreams(builder.build(), properties);
    streams.setStateListener((now, before) -> System.out.println(now));
    streams.setUncaughtExceptionHandler(
        error -> {
          error.printStackTrace();
          return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(30))));
    streams.start();
  }
}
